#include "wire/rendezvous.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/file.h"
#include "process/status.h"

namespace probing::wire {
namespace {

constexpr int kBacklog = 64;
constexpr std::int64_t kBacklogLookUs = 1000;  // between two tries

ScopedFd MakeSocket() { return ScopedFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error{Code::kUsage, "the socket path " + path + " is longer than a unix socket allows", ""};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Connects and tells nothing about who listens. 0 or an errno; EAGAIN when the backlog stays full.
int Dial(const std::string& path, int fd, const Deadline& deadline) {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return ENAMETOOLONG;
  // A blocking connect() waits for room in the backlog, which the listener may never make.
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  int error = 0;
  while (connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    error = errno;
    if (error == EINTR) continue;
    if (error != EAGAIN || deadline.passed()) break;
    SleepUs(kBacklogLookUs);
    error = 0;
  }
  fcntl(fd, F_SETFL, flags);
  return error == EINTR ? 0 : error;
}

bool IsOwnDirectory(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;
}

// Makes the directory if needed, and refuses it when anyone else could have a hand in it.
Result<void> PrepareDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoError("create " + path);
  if (!IsOwnDirectory(path)) {
    return Error{Code::kPermission, path + " exists and is not a directory of this user alone (0700)",
                 "remove it, or ask its owner to"};
  }
  return {};
}

// Whether somebody answers there. Asked with the very socket that is to listen: inside a target
// a second one could be inherited by a child the job forks at this moment.
bool SomebodyListens(const std::string& path, int fd) {
  if (Dial(path, fd, Deadline::AfterMs(kConnectTimeoutMs)) != 0) return false;
  const ScopedFd fresh = MakeSocket();  // the old one is connected for good
  dup3(fresh.get(), fd, O_CLOEXEC);
  return true;
}

// Returns the path.
Result<std::string> ListenIn(const std::string& directory, const std::string& name, int fd) {
  RETURN_IF_ERROR(PrepareDirectory(directory));
  const std::string path = directory + "/" + name + ".sock";
  if (SomebodyListens(path, fd)) return ErrnoError("listen on " + path, EADDRINUSE);
  // Bound under another name first: whoever finds the real one can connect to it at once.
  const std::string hidden = directory + "/." + name + "." + std::to_string(getpid());
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(hidden));
  unlink(hidden.c_str());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError("bind " + hidden);
  }
  if (chmod(hidden.c_str(), 0600) != 0 || listen(fd, kBacklog) != 0 ||
      rename(hidden.c_str(), path.c_str()) != 0) {
    Error error = ErrnoError("listen on " + path);
    unlink(hidden.c_str());
    return error;
  }
  return path;
}

// The user id a process has for itself: in a user namespace not the one we see.
uid_t OwnUid(pid_t pid, uid_t uid_outside) {
  const Result<std::string> map = ReadFile("/proc/" + std::to_string(pid) + "/uid_map");
  if (!map.ok()) return uid_outside;
  // Lines of "inside outside count".
  const char* rest = map->c_str();
  while (true) {
    std::array<std::uint64_t, 3> numbers{};
    for (std::uint64_t& number : numbers) {
      char* end = nullptr;
      number = std::strtoull(rest, &end, 10);
      if (end == rest) return uid_outside;
      rest = end;
    }
    const auto [inside, outside, count] = numbers;
    if (uid_outside >= outside && uid_outside - outside < count) {
      return static_cast<uid_t>(inside + (uid_outside - outside));
    }
  }
}

}  // namespace

std::vector<std::string> RuntimeDirectories(uid_t uid, const std::string& root) {
  std::vector<std::string> directories;
  for (const char* base : {"/tmp", "/dev/shm", "/var/tmp"}) {
    directories.push_back(root + base + "/probing-" + std::to_string(uid));
  }
  return directories;
}

std::vector<std::string> OwnRuntimeDirectories() {
  std::vector<std::string> own = RuntimeDirectories(geteuid());
  std::erase_if(own, [](const std::string& directory) { return !IsOwnDirectory(directory); });
  return own;
}

Result<std::string> PrepareRuntimeDirectory() {
  Error last;
  for (const std::string& directory : RuntimeDirectories(geteuid())) {
    Result<void> prepared = PrepareDirectory(directory);
    if (prepared.ok() && access(directory.c_str(), W_OK) == 0) return directory;
    last = prepared.ok() ? ErrnoError("write to " + directory) : std::move(prepared.error());
  }
  return last;
}

ScopedFd MakeListenerSocket() { return MakeSocket(); }

Result<Listener> Listen(const std::string& name, ScopedFd&& socket) {
  if (!socket.valid()) return ErrnoError("create a unix socket");
  std::string reasons;
  Error last;
  for (const std::string& directory : RuntimeDirectories(geteuid())) {
    Result<std::string> path = ListenIn(directory, name, socket.get());
    if (path.ok()) return Listener{std::move(socket), std::move(*path)};
    last = path.error();
    reasons += (reasons.empty() ? "" : "; ") + last.message;
  }
  last.message = "no directory for the socket " + name + ": " + reasons;
  return last;
}

Result<ScopedFd> Connect(const std::string& path, uid_t owner, std::int64_t timeout_ms) {
  ScopedFd fd = MakeSocket();
  if (!fd.valid()) return ErrnoError("create a unix socket");
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  if (const int error = Dial(path, fd.get(), deadline); error != 0)
    return ErrnoError("connect to " + path, error);
  ASSIGN_OR_RETURN(const Peer peer, PeerOf(fd.get()));
  if (peer.uid != owner && peer.uid != 0) {
    return Error{
        Code::kPermission,
        path + " is served by user " + std::to_string(peer.uid) + ", not by " + std::to_string(owner),
        "somebody else put that socket there; remove it"};
  }
  return fd;
}

Result<ScopedFd> ConnectToProbe(pid_t pid, std::int64_t timeout_ms) {
  const std::string pid_text = std::to_string(pid);
  const Result<process::Status> status = process::ReadStatus(pid);
  if (!status.ok()) {
    for (const std::string& directory : OwnRuntimeDirectories()) {
      RemoveIfStale(directory + "/" + pid_text + ".sock");
    }
    return status.error();
  }
  const std::string name = std::to_string(status->own_pid()) + ".sock";
  const uid_t own_uid = OwnUid(pid, status->effective_uid);
  Error error{Code::kNotFound, "process " + pid_text + " has no probe",
              "run `probing -t " + pid_text + " inject` first"};
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  // Our own root first: /proc/PID/root needs more rights. A namesake from another pid
  // namespace may be found there, hence the check of the peer's pid.
  for (const std::string& root : {std::string(), "/proc/" + pid_text + "/root"}) {
    for (const std::string& directory : RuntimeDirectories(own_uid, root)) {
      ScopedFd fd = MakeSocket();
      const int dialled = Dial(directory + "/" + name, fd.get(), deadline);
      if (dialled == EAGAIN) {
        error = Error{Code::kTimeout, "the probe of process " + pid_text + " takes no more connections",
                      "is the process stopped? `probing doctor " + pid_text + "` tells"};
      }
      if (dialled == EACCES) {
        error = ErrnoError("cannot tell whether process " + pid_text + " has a probe", dialled);
        error.hint = "run this as the user of process " + pid_text + " or as root";
      }
      if (dialled != 0) continue;
      const Result<Peer> peer = PeerOf(fd.get());
      if (peer.ok() && peer->pid == pid) return fd;
    }
  }
  return error;
}

void RemoveIfStale(const std::string& path) {
  const ScopedFd fd = MakeSocket();
  if (Dial(path, fd.get(), Deadline::AfterMs(0)) == ECONNREFUSED) unlink(path.c_str());
}

Result<Peer> PeerOf(int socket_fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoError("ask who is at the other end of a socket");
  }
  return Peer{peer.pid, peer.uid};
}

bool PeerIsTrusted(int socket_fd) {
  const Result<Peer> peer = PeerOf(socket_fd);
  return peer.ok() && (peer->uid == geteuid() || peer->uid == 0);
}

}  // namespace probing::wire
