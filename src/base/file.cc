#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "base/scoped_fd.h"

namespace probing {

Result<std::string> ReadFile(const std::string& path) {
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError("open " + path);
  std::string content;
  std::array<char, 8192> buffer;
  while (true) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("read " + path);
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

Result<std::string> ReadLink(const std::string& path) {
  std::array<char, 4096> buffer;
  const ssize_t n = readlink(path.c_str(), buffer.data(), buffer.size());
  if (n < 0) return ErrnoError("readlink " + path);
  return std::string(buffer.data(), static_cast<std::size_t>(n));
}

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  struct Closer {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  std::unique_ptr<DIR, Closer> dir(opendir(path.c_str()));
  if (dir == nullptr) return ErrnoError("open directory " + path);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  return names;
}

Result<void> WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("write");
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace probing
