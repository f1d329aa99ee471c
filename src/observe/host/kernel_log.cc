#include "observe/host/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "observe/host/kernel_pids.h"

namespace probing::observe {
namespace {

constexpr int kMostRecords = 100'000;  // a log that grows faster than it is read has to end somewhere

}  // namespace

std::optional<KernelLog> KernelLog::FromNow(const std::string& path) {
  if (!KernelMeansOurPids()) return std::nullopt;
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid() || lseek(fd.get(), 0, SEEK_END) < 0) return std::nullopt;
  return KernelLog(std::move(fd));
}

std::optional<std::string> KernelLog::FindOomKill(pid_t pid) {
  std::array<char, 8192> record;
  for (int i = 0; i < kMostRecords; ++i) {
    const ssize_t n = read(fd_.get(), record.data(), record.size());  // one record each
    if (n < 0 && (errno == EPIPE || errno == EINTR)) continue;        // EPIPE: some were overwritten
    if (n <= 0) return std::nullopt;
    auto found = OomKillIn(std::string_view(record.data(), static_cast<std::size_t>(n)), pid);
    if (found.has_value()) return found;
  }
  return std::nullopt;
}

std::optional<std::string> OomKillIn(std::string_view record, pid_t pid) {
  const std::size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  record.remove_prefix(semicolon + 1);
  record = record.substr(0, record.find('\n'));
  // "Killed process 17 (name)", and with a comma before Linux 5.
  const std::string words = "Killed process " + std::to_string(pid);
  const std::size_t at = record.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = record.substr(at + words.size());
  if (!rest.starts_with(' ') && !rest.starts_with(',')) return std::nullopt;
  std::string line(record);
  std::replace_if(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return line;
}

}  // namespace probing::observe
