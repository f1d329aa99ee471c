#include "server/socket_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "base/scoped_fd.h"

namespace probing::server {
namespace {

constexpr timeval kPatience{0, 200'000};
constexpr int kTries = 3;

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// Where an address of either family is put. False: it is not one of loopback.
bool Fill(const sockaddr_storage& from, __be16& port, __be32 (&address)[4]) {
  if (from.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(from);
    port = in.sin_port;
    address[0] = in.sin_addr.s_addr;
    return (ntohl(in.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const auto& in6 = reinterpret_cast<const sockaddr_in6&>(from);
  port = in6.sin6_port;
  std::memcpy(address, &in6.sin6_addr, sizeof(in6.sin6_addr));
  return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
}

std::optional<inet_diag_msg> Ask(const Question& question) {
  const ScopedFd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.valid()) return std::nullopt;
  setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  if (send(netlink.get(), &question, sizeof(question), 0) != sizeof(question)) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 4096> buffer;
  const ssize_t size = recv(netlink.get(), buffer.data(), buffer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  inet_diag_msg found;
  std::memcpy(&found, NLMSG_DATA(header), sizeof(found));
  return found;
}

}  // namespace

std::optional<uid_t> OwnerOfPeer(int fd) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof(own);
  socklen_t peer_size = sizeof(peer);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
      (peer.ss_family != AF_INET && peer.ss_family != AF_INET6)) {
    return std::nullopt;
  }
  // Its socket, seen from its side: what is remote for us is its source.
  Question question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<__u8>(peer.ss_family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  inet_diag_sockid& id = question.request.id;
  if (!Fill(peer, id.idiag_sport, id.idiag_src) || !Fill(own, id.idiag_dport, id.idiag_dst))
    return std::nullopt;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

  // A look-up in the kernel's table may miss an entry that is being moved.
  for (int tries = 0; tries < kTries; ++tries) {
    const std::optional<inet_diag_msg> found = Ask(question);
    // A look-up by address falls back to whoever listens there: only the very connection counts.
    if (found && found->id.idiag_sport == id.idiag_sport && found->id.idiag_dport == id.idiag_dport &&
        std::memcmp(found->id.idiag_src, id.idiag_src, peer.ss_family == AF_INET ? 4 : 16) == 0) {
      // A socket that was closed already, by a visitor that sends its request and leaves, has no owner any
      // more: the kernel then says 0, which is root's number.
      if (found->idiag_inode == 0) return std::nullopt;
      return found->idiag_uid;
    }
  }
  return std::nullopt;
}

}  // namespace probing::server
