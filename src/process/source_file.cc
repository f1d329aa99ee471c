#include "process/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "process/status.h"

namespace probing::process {
namespace {

constexpr off_t kMaxFileBytes = 4 << 20;
constexpr std::array<std::string_view, 3> kSuffixes{".py", ".pyx", ".pyi"};

}  // namespace

Result<std::string> ReadSourceFile(pid_t pid, const std::string& file) {
  const bool is_python = std::any_of(kSuffixes.begin(), kSuffixes.end(),
                                     [&](std::string_view suffix) { return file.ends_with(suffix); });
  if (!is_python) return Error{Code::kNotFound, file + " is no Python file", ""};
  return ReadFileOf(pid, file, kMaxFileBytes, "");
}

Result<std::string> ReadFileOf(pid_t pid, const std::string& file, off_t max_bytes, std::string_view start) {
  // It may be in a container.
  const std::string path =
      "/proc/" + std::to_string(pid) + (file.starts_with('/') ? "/root" : "/cwd/") + file;
  const ScopedFd opened(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info{};
  if (!opened.valid() || fstat(opened.get(), &info) != 0) return ErrnoError("read " + file);
  ASSIGN_OR_RETURN(const Status status, ReadStatus(pid));
  const bool is_readable = info.st_uid == status.effective_uid || (info.st_mode & S_IROTH) != 0;
  if (!S_ISREG(info.st_mode) || info.st_size > max_bytes || !is_readable)
    return Error{Code::kFailed, file + " is no file of a size to be shown", ""};
  std::string begin(start.size(), '\0');
  if (pread(opened.get(), begin.data(), begin.size(), 0) != static_cast<ssize_t>(begin.size()) ||
      begin != start)
    return Error{Code::kFailed, file + " does not begin with " + std::string(start), ""};
  return ReadFile("/proc/self/fd/" + std::to_string(opened.get()));
}

}  // namespace probing::process
