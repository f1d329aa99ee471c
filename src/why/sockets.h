// The other end of a socket: TCP by the kernel's tables of all network namespaces that can be seen, unix
// sockets by sock_diag.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "why/descriptors.h"

namespace probing::why {

struct TcpSocket {
  std::string local;  // "127.0.0.1:40311", "[::1]:80"
  std::string remote;
  std::uint16_t local_port = 0;
  int state = 0;            // as the kernel counts: 1 established, 2 SYN sent, 10 listening
  std::uint64_t inode = 0;  // 0: nobody has it open (not yet accepted, or closed)
  std::uint64_t unread_bytes = 0;

  bool is_listening() const { return state == 10; }
};

// The text of /proc/PID/net/tcp or tcp6. Lines that make no sense are skipped. Addresses of IPv4 in IPv6
// are written as IPv4.
std::vector<TcpSocket> ParseTcpTable(std::string_view text);

// Inode → inode of the other end, of the unix sockets of a network namespace, "/proc/PID/ns/net"; "" for
// our own. Empty when it may not be entered.
std::unordered_map<std::uint64_t, std::uint64_t> ReadUnixPeers(const std::string& network_namespace);

struct Peer {
  enum class Kind : std::uint8_t {
    kNone,       // not connected, or of a kind that nothing is known about
    kListening,  // it waits for connections itself
    kHere,       // `inodes` are the other end
    kNotTaken,   // connected, and not yet accepted by those who have `inodes`
    kElsewhere,  // `name` is not an address of this host, or nobody here is allowed to be seen with it
  };
  Kind kind = Kind::kNone;
  std::string name;  // "TCP 10.0.0.3:443", "unix socket"
  std::vector<std::uint64_t> inodes;
};

// Not thread-safe. Reads when asked, and keeps it.
class Sockets {
 public:
  explicit Sockets(Descriptors& descriptors) : descriptors_(&descriptors) {}

  Peer PeerOf(pid_t pid, std::uint64_t inode);

 private:
  struct Namespace {
    pid_t process = 0;  // one that is in it
    std::vector<TcpSocket> tcp;
    std::optional<std::unordered_map<std::uint64_t, std::uint64_t>> unix_peers;
  };

  void ReadNamespaces();
  std::string NamespaceOf(pid_t pid) const;
  Peer PeerOfTcp(const TcpSocket& socket, const Namespace& own);

  Descriptors* descriptors_;
  std::map<std::string, Namespace> namespaces_;  // by what the link says: "net:[4026531840]"
};

}  // namespace probing::why
