// Whose program is at the other end of a TCP connection within this machine.
#pragma once

#include <sys/types.h>

#include <optional>

namespace probing::server {

// The user that the kernel says owns the socket at the other end (sock_diag). Nothing when that
// is not on this machine, not over loopback, or when the kernel does not tell.
// REQUIRES: `fd` is a connected TCP socket.
std::optional<uid_t> OwnerOfPeer(int fd);

}  // namespace probing::server
