#include "tls/known_hosts.h"

#include <fcntl.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"

namespace probing::tls {
namespace {

// What follows the address in its line; "" when there is none.
std::string FingerprintIn(std::string_view text, const std::string& address) {
  while (!text.empty()) {
    std::string_view line = TakePart(text, '\n');
    if (TakePart(line, ' ') == address) return std::string(line.substr(0, line.find_last_not_of(" \r") + 1));
  }
  return "";
}

}  // namespace

Result<Seen> CheckKnownHost(const std::string& path, const std::string& address,
                            const std::string& fingerprint) {
  const ScopedFd file(open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return ErrnoError("open " + path);
  // Of two commands that see an address for the first time, one writes it down.
  if (flock(file.get(), LOCK_EX) != 0) return ErrnoError("lock " + path);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const std::string known = FingerprintIn(text, address);
  if (known == fingerprint) return Seen::kSame;
  if (!known.empty()) {
    return Error{Code::kPermission,
                 address + " shows another certificate than before: " + fingerprint + ", it was " + known,
                 "somebody may be in between. If it was renewed, remove its line from " + path};
  }
  const bool unended = !text.empty() && text.back() != '\n';
  RETURN_IF_ERROR(WriteAll(file.get(), (unended ? "\n" : "") + address + " " + fingerprint + "\n"));
  return Seen::kFirst;
}

}  // namespace probing::tls
