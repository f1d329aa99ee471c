#include "outlet/system_log.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

#include "base/scoped_fd.h"

namespace probing::outlet {
namespace {

constexpr std::string_view kJournal = "/run/systemd/journal/socket";
constexpr std::string_view kDevLog = "/dev/log";
constexpr int kFacilityDaemon = 3;
constexpr std::size_t kMaxLine =
    1800;  // one datagram of RFC 3164 has 1024 bytes; all that is in use takes more

int PriorityOf(std::string_view severity) { return severity == "error" ? 3 : severity == "warning" ? 4 : 6; }

// As syslog(3): "<27>Nov  5 07:08:09 probingd[4711]: line".
std::string ForSyslog(int priority, std::string_view line) {
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t now = time(nullptr);
  tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 64> head{};
  std::snprintf(head.data(), head.size(),
                "<%d>%s %2d %02d:%02d:%02d probingd[%d]: ", kFacilityDaemon * 8 + priority,
                kMonths[static_cast<std::size_t>(parts.tm_mon) % 12], parts.tm_mday, parts.tm_hour,
                parts.tm_min, parts.tm_sec, static_cast<int>(getpid()));
  return head.data() + std::string(line);
}

std::string ForJournal(int priority, std::string_view line, const Texts& fields) {
  std::string text = "PRIORITY=" + std::to_string(priority) +
                     "\nSYSLOG_IDENTIFIER=probingd\nSYSLOG_FACILITY=" + std::to_string(kFacilityDaemon) +
                     "\nSYSLOG_PID=" + std::to_string(getpid()) + "\nMESSAGE=" + std::string(line) + "\n";
  for (const auto& [name, value] : fields) text += name + "=" + value + "\n";
  return text;
}

Result<void> SendTo(const std::string& path, std::string_view datagram) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return Error{Code::kUsage, "the path of the log's socket is too long", ""};
  std::copy(path.begin(), path.end(), address.sun_path);
  const ScopedFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("open a socket");
  const ssize_t sent = sendto(fd.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return sent < 0 ? ErrnoError("write to " + path) : Result<void>();
}

}  // namespace

Result<void> SystemLog::Write(std::string_view severity, std::string_view line, const Texts& fields) const {
  const int priority = PriorityOf(severity);
  line = line.substr(0, kMaxLine);
  const bool is_own = place_ != "on";
  const std::string journal(is_own ? std::string_view(place_) : kJournal);
  const bool is_journal = is_own ? place_.ends_with("/journal/socket") : access(kJournal.data(), W_OK) == 0;
  if (is_journal) return SendTo(journal, ForJournal(priority, line, fields));
  return SendTo(is_own ? place_ : std::string(kDevLog), ForSyslog(priority, line));
}

}  // namespace probing::outlet
