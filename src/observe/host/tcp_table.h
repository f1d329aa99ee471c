// TcpTable: the TCP connections of a network namespace, as the kernel counts them (sock_diag, tcp_info).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "observe/host/proc_text.h"

namespace probing::observe {

// Numbers that this kernel does not tell are missing.
struct TcpConnection {
  std::string local, remote;  // address:port; IPv4 in its own form, whatever the socket's family
  std::int64_t rtt_us = 0;
  std::int64_t unsent_bytes = 0;     // written, and not yet on the wire
  std::int64_t retransmissions = 0;  // segments
  Number min_rtt_us, sent_bytes, received_bytes, delivery_rate;
  Number busy_us, peer_limited_us;  // with something to deliver; in which the other side had no room for it
};

class TcpTable {
 public:
  // Of the namespace that the process is in. Another than ours can be entered by root only.
  static Result<TcpTable> Open(const std::string& namespace_path);

  // Those that are established, by the inode of the socket.
  Result<std::unordered_map<ino_t, TcpConnection>> Read();

 private:
  explicit TcpTable(ScopedFd netlink) : netlink_(std::move(netlink)) {}
  ScopedFd netlink_;
};

}  // namespace probing::observe
