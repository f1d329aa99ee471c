#include "observe/host/kept_file.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace probing::observe {
namespace {

constexpr std::size_t kFirstBuffer = 4096;
constexpr std::size_t kLargestBuffer = 1U << 20;
// For some targets with some threads. How many there are is for others to decide, and a look once a second
// can afford to open its files.
constexpr rlim_t kMostKept = 96;

// Some files give no more than a page at once, so it is read until nothing comes.
std::optional<std::string_view> ReadFromStart(int fd, std::string& buffer) {
  if (buffer.size() < kFirstBuffer) buffer.resize(kFirstBuffer);
  std::size_t used = 0;
  while (true) {
    const ssize_t n = pread(fd, buffer.data() + used, buffer.size() - used, static_cast<off_t>(used));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    used += static_cast<std::size_t>(n);
    // A second call costs as much as the first: a page with room left is taken for the end.
    if (n == 0 || (used < buffer.size() && used < kFirstBuffer / 2))
      return std::string_view(buffer).substr(0, used);
    if (used < buffer.size()) continue;
    if (buffer.size() >= kLargestBuffer) return std::string_view(buffer).substr(0, used);
    buffer.resize(buffer.size() * 2);
  }
}

}  // namespace

FileBudget FileBudget::HalfOfTheLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return FileBudget(0);
  return FileBudget(static_cast<int>(std::min<rlim_t>(limit.rlim_cur / 2, kMostKept)));
}

std::optional<std::string_view> KeptFile::Read(std::string& buffer) {
  if (fd_.valid()) return ReadFromStart(fd_.get(), buffer);
  ScopedFd fd(openat(folder_fd_, name_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  const auto content = ReadFromStart(fd.get(), buffer);
  if (content.has_value() && was_read_ && budget_->Take()) fd_ = std::move(fd);
  was_read_ = true;
  return content;
}

}  // namespace probing::observe
