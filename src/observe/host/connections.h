// The TCP connections of targets between two looks: how much went over each, and how well.
//
// The kernel lists all connections of a network namespace at once; that is done once for all targets in it.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "observe/host/counter.h"
#include "observe/host/tcp_table.h"

namespace probing::observe {

struct ConnectionLook {
  std::string local, remote;
  Number sent_bytes, received_bytes, retransmissions;  // since the last look
  std::int64_t unsent_bytes = 0;
  double rtt_ms = 0;
  std::optional<double> min_rtt_ms;
  Number delivery_rate;
  std::optional<double> busy_ms, peer_limited_ms;  // since the last look
};

// Of one target.
class ConnectionWatch {
 public:
  // `sockets` are inodes. Connections over which nothing went are left out, of the others the busiest taken.
  std::vector<ConnectionLook> Look(const std::vector<ino_t>& sockets,
                                   const std::unordered_map<ino_t, TcpConnection>& connections);

 private:
  struct Counters {
    Counter sent_bytes, received_bytes, retransmissions, busy_us, peer_limited_us;
    bool seen = true;
  };
  std::map<ino_t, Counters> counters_;
};

// All namespaces that targets are in.
class NetworkSpaces {
 public:
  // What is told here stays until the next BeginTick(). Null when we may not look there, or when it has taken
  // so long that it is not worth it every time.
  const std::unordered_map<ino_t, TcpConnection>* Connections(const std::string& proc_folder);
  void BeginTick();

 private:
  struct Space {
    Result<TcpTable> table;
    std::unordered_map<ino_t, TcpConnection> connections;
    std::int64_t next_ns = 0;  // MonotonicNs
    bool is_fresh = false;     // read in this tick
    bool is_used = true;       // since the last tick
  };
  std::map<ino_t, Space> spaces_;
};

// The inodes of the sockets that a process has open.
std::vector<ino_t> SocketsOf(const std::string& proc_folder);

}  // namespace probing::observe
