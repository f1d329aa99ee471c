#include "daemon/audit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "daemon/log.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace {

constexpr off_t kMaxBytes = 10 << 20;

std::string Now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace

void Audit(std::string_view action, server::Json details) {
  const Result<std::string> directory = wire::PrepareRuntimeDirectory();
  if (!directory.ok()) return;
  const std::string path = *directory + "/audit.jsonl";
  struct stat info{};
  if (lstat(path.c_str(), &info) == 0 && info.st_size > kMaxBytes)
    rename(path.c_str(), (path + ".1").c_str());
  server::Json line{{"time", Now()}, {"action", action}};
  line.update(details);
  const ScopedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string text = server::JsonText(line) + "\n";
  if (!file.valid() || !WriteAll(file.get(), text).ok()) Log(LogLevel::kWarn, "cannot write " + path);
}

}  // namespace probing::daemon
