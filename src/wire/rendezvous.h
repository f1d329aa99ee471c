// Where probes and probingd meet: unix sockets in a 0700 directory named after the user.
//
//   <dir>/<pid>.sock      a probe; pid as the target sees itself
//   <dir>/probingd.sock   the user's daemon
//
// <dir> is the first of /tmp, /dev/shm and /var/tmp + "/probing-<uid>" that can be used, so a
// full or read-only /tmp is no obstacle; whoever looks for sockets looks in all of them. It does
// not depend on the environment: target and tool rarely share one. A target in another mount
// namespace is reached through /proc/PID/root. A directory that is not ours alone is refused.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::wire {

// The candidates in order of preference; `root` is "" or "/proc/PID/root".
std::vector<std::string> RuntimeDirectories(uid_t uid, const std::string& root = "");

// The first directory this user can write to; made if necessary.
Result<std::string> PrepareRuntimeDirectory();

// A listening socket called `name`, and its path, in the first directory that can be used.
struct Listener {
  ScopedFd socket;
  std::string path;
};
// The socket may be made beforehand, by one who must know of it at once; it is taken only on success.
ScopedFd MakeListenerSocket();
Result<Listener> Listen(const std::string& name, ScopedFd&& socket = MakeListenerSocket());

// Those of the candidates that exist and are this user's alone: no other user can have put anything there.
std::vector<std::string> OwnRuntimeDirectories();

// How long a full backlog is waited for: a stopped target, or one that wants to hold up its visitors.
inline constexpr std::int64_t kConnectTimeoutMs = 2000;

// Connects to a socket, and checks with SO_PEERCRED that its listener runs as `owner` (or root).
Result<ScopedFd> Connect(const std::string& path, uid_t owner, std::int64_t timeout_ms = kConnectTimeoutMs);

// Connects to the probe inside process `pid`. Verifies that the peer is that very process.
// kNotFound: it has no probe. A stale socket of a dead process is removed. With a time-out of 0 it never
// waits.
Result<ScopedFd> ConnectToProbe(pid_t pid, std::int64_t timeout_ms = kConnectTimeoutMs);

// Removes the socket of a process that is gone; does nothing while anybody listens on it.
void RemoveIfStale(const std::string& path);

// Who is at the other end of a unix socket, as seen from here; the kernel vouches for it.
struct Peer {
  pid_t pid = 0;  // 0: in a pid namespace we cannot see
  uid_t uid = 0;
};
Result<Peer> PeerOf(int socket_fd);

// True when the process at the other end is this user's or root's.
bool PeerIsTrusted(int socket_fd);

}  // namespace probing::wire
