// What the processes of this host have open: which descriptor is a pipe, a socket, a terminal, and who else
// has the same one.
//
// Reads /proc when asked, and keeps it: one object for one investigation. Processes of other users, which
// cannot be looked into, are left out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace probing::why {

struct Descriptor {
  pid_t pid = 0;
  int fd = -1;
  std::string path;         // "pipe:[123]", "/dev/pts/3"
  std::uint64_t inode = 0;  // of a pipe or socket, else 0
  bool readable = false;
  bool writable = false;

  bool is_pipe() const { return path.starts_with("pipe:"); }
  bool is_socket() const { return path.starts_with("socket:"); }
};

// "socket:[123]" → 123; 0 for others.
std::uint64_t InodeOf(std::string_view path);

// Not thread-safe.
class Descriptors {
 public:
  explicit Descriptors(std::string proc_root = "/proc") : root_(std::move(proc_root)) {}

  const std::vector<pid_t>& Processes();
  const std::vector<Descriptor>& Of(pid_t pid);
  std::optional<Descriptor> Find(pid_t pid, int fd);
  // All that have this pipe or socket; named pipes (`path` with a slash) by their path.
  std::vector<Descriptor> Holders(const Descriptor& like);
  std::vector<Descriptor> Holders(std::uint64_t inode);

  // The descriptors that an epoll instance watches.
  std::vector<int> Watched(pid_t pid, int epoll_fd) const;
  // A line of /proc/PID/fdinfo/FD, without its name: "Pid:" of a pidfd.
  std::string Info(pid_t pid, int fd, std::string_view name) const;
  std::string InfoText(pid_t pid, int fd) const;

  const std::string& root() const { return root_; }

 private:
  void ReadAll();

  std::string root_;
  std::vector<pid_t> processes_;
  std::unordered_map<pid_t, std::vector<Descriptor>> of_;
  std::unordered_map<std::uint64_t, std::vector<std::pair<pid_t, int>>> by_inode_;
  bool read_all_ = false;
};

}  // namespace probing::why
