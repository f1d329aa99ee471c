#include "why/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <thread>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"

namespace probing::why {
namespace {

constexpr std::size_t kMaxSockets = 65'536;
constexpr int kSynSent = 2;
constexpr int kEstablished = 1;
constexpr std::size_t kReplyBytes = 64 * 1024;

// "0100007F:1F90": words in the byte order of this machine, the port as a number.
bool ParseAddress(std::string_view text, std::string& address, std::uint16_t& port) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || !ParseNumber(text.substr(colon + 1), port, 16)) return false;
  const std::string_view digits = text.substr(0, colon);
  std::array<std::uint32_t, 4> words{};
  const std::size_t count = digits.size() / 8;
  if (digits.size() != count * 8 || (count != 1 && count != 4)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!ParseNumber(digits.substr(i * 8, 8), words[i], 16)) return false;
  }
  std::array<char, INET6_ADDRSTRLEN> buffer{};
  const bool is_mapped = count == 4 && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  if (count == 1 || is_mapped) {
    inet_ntop(AF_INET, count == 1 ? &words[0] : &words[3], buffer.data(), buffer.size());
    address = std::string(buffer.data()) + ":" + std::to_string(port);
  } else {
    inet_ntop(AF_INET6, words.data(), buffer.data(), buffer.size());
    address = "[" + std::string(buffer.data()) + "]:" + std::to_string(port);
  }
  return true;
}

std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return TakePart(line, ' ');
}

using Peers = std::unordered_map<std::uint64_t, std::uint64_t>;

bool SendRequest(int fd) {
  struct {
    nlmsghdr header{};
    unix_diag_req request{};
  } message;
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  message.request.sdiag_family = AF_UNIX;
  message.request.udiag_states = 0xffffffff;
  message.request.udiag_show = UDIAG_SHOW_PEER;
  return send(fd, &message, sizeof(message), 0) == static_cast<ssize_t>(sizeof(message));
}

void AddPeer(std::span<const std::byte> body, Peers& peers) {
  unix_diag_msg about{};
  if (body.size() < sizeof(about)) return;
  std::memcpy(&about, body.data(), sizeof(about));
  body = body.subspan(NLMSG_ALIGN(sizeof(about)));
  while (body.size() >= sizeof(nlattr)) {
    nlattr attribute{};
    std::memcpy(&attribute, body.data(), sizeof(attribute));
    if (attribute.nla_len < sizeof(attribute) || attribute.nla_len > body.size()) return;
    std::uint32_t peer = 0;
    if (attribute.nla_type == UNIX_DIAG_PEER && attribute.nla_len == sizeof(attribute) + sizeof(peer)) {
      std::memcpy(&peer, body.data() + sizeof(attribute), sizeof(peer));
      peers[about.udiag_ino] = peer;
    }
    body = body.subspan(std::min<std::size_t>(NLA_ALIGN(attribute.nla_len), body.size()));
  }
}

Peers AskKernel() {
  Peers peers;
  const ScopedFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd.valid() || !SendRequest(fd.get())) return peers;
  std::vector<std::byte> reply(kReplyBytes);
  while (peers.size() < kMaxSockets) {
    const ssize_t received = recv(fd.get(), reply.data(), reply.size(), 0);
    if (received <= 0) return peers;
    std::span<const std::byte> rest(reply.data(), static_cast<std::size_t>(received));
    while (rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header{};
      std::memcpy(&header, rest.data(), sizeof(header));
      if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > rest.size()) return peers;
      if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return peers;  // done, or an error
      AddPeer(rest.subspan(sizeof(header), header.nlmsg_len - sizeof(header)), peers);
      rest = rest.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
    }
  }
  return peers;
}

}  // namespace

std::vector<TcpSocket> ParseTcpTable(std::string_view text) {
  std::vector<TcpSocket> sockets;
  TakePart(text, '\n');  // the names of columns
  while (!text.empty() && sockets.size() < kMaxSockets) {
    std::string_view line = TakePart(text, '\n');
    TcpSocket socket;
    std::uint16_t remote_port = 0;
    TakeWord(line);  // its number
    if (!ParseAddress(TakeWord(line), socket.local, socket.local_port)) continue;
    if (!ParseAddress(TakeWord(line), socket.remote, remote_port)) continue;
    if (!ParseNumber(TakeWord(line), socket.state, 16)) continue;
    std::string_view queues = TakeWord(line);
    TakePart(queues, ':');
    if (!ParseNumber(queues, socket.unread_bytes, 16)) continue;
    for (int i = 0; i < 4; ++i) TakeWord(line);  // timer, retransmissions, uid, timeout
    if (ParseNumber(TakeWord(line), socket.inode)) sockets.push_back(std::move(socket));
  }
  return sockets;
}

Peers ReadUnixPeers(const std::string& network_namespace) {
  if (network_namespace.empty()) return AskKernel();
  Peers peers;
  // Only this thread enters it, and ends there.
  std::thread([&] {
    const ScopedFd fd(open(network_namespace.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.valid() && setns(fd.get(), CLONE_NEWNET) == 0) peers = AskKernel();
  }).join();
  return peers;
}

std::string Sockets::NamespaceOf(pid_t pid) const {
  const auto link = ReadLink(descriptors_->root() + "/" + std::to_string(pid) + "/ns/net");
  return link.ok() ? *link : "";
}

void Sockets::ReadNamespaces() {
  if (!namespaces_.empty()) return;
  for (const pid_t pid : descriptors_->Processes()) {
    const std::string name = NamespaceOf(pid);
    if (name.empty() || namespaces_.contains(name)) continue;
    Namespace& one = namespaces_[name];
    one.process = pid;
    for (const char* file : {"/net/tcp", "/net/tcp6"}) {
      const auto text = ReadFile(descriptors_->root() + "/" + std::to_string(pid) + file);
      if (!text.ok()) continue;
      for (TcpSocket& socket : ParseTcpTable(*text)) one.tcp.push_back(std::move(socket));
    }
  }
}

Peer Sockets::PeerOfTcp(const TcpSocket& socket, const Namespace& own) {
  Peer peer;
  peer.name = "TCP " + socket.remote;
  if (socket.is_listening()) {
    peer.kind = Peer::Kind::kListening;
    peer.name = "TCP " + socket.local;
    return peer;
  }
  if (socket.state != kEstablished && socket.state != kSynSent) {
    peer.kind = Peer::Kind::kElsewhere;
    return peer;
  }
  // Its own namespace first: addresses are unique only there.
  std::vector<const Namespace*> all{&own};
  for (const auto& [name, each] : namespaces_) {
    if (&each != &own) all.push_back(&each);
  }
  for (const Namespace* each : all) {
    for (const TcpSocket& other : each->tcp) {
      if (other.local != socket.remote || other.remote != socket.local || &other == &socket) continue;
      peer.kind = Peer::Kind::kHere;
      if (other.inode != 0) {
        peer.inodes.push_back(other.inode);
        return peer;
      }
      // In the queue of a listening socket, or left behind by a process that has closed it.
      peer.kind = Peer::Kind::kNotTaken;
      for (const TcpSocket& listener : each->tcp) {
        if (listener.is_listening() && listener.local_port == other.local_port) {
          peer.inodes.push_back(listener.inode);
        }
      }
      return peer;
    }
  }
  peer.kind = Peer::Kind::kElsewhere;
  return peer;
}

Peer Sockets::PeerOf(pid_t pid, std::uint64_t inode) {
  ReadNamespaces();
  const std::string name = NamespaceOf(pid);
  // A process may have changed its namespace after it opened the socket.
  std::vector<Namespace*> order;
  if (const auto own = namespaces_.find(name); own != namespaces_.end()) order.push_back(&own->second);
  for (auto& [other, each] : namespaces_) {
    if (other != name) order.push_back(&each);
  }
  for (Namespace* each : order) {
    for (const TcpSocket& socket : each->tcp) {
      if (socket.inode == inode) return PeerOfTcp(socket, *each);
    }
  }
  const std::string ours = NamespaceOf(getpid());
  for (Namespace* each : order) {
    if (!each->unix_peers) {
      const bool is_ours = namespaces_.contains(ours) && each == &namespaces_[ours];
      each->unix_peers = ReadUnixPeers(
          is_ours ? "" : descriptors_->root() + "/" + std::to_string(each->process) + "/ns/net");
    }
    const auto found = each->unix_peers->find(inode);
    if (found == each->unix_peers->end()) continue;
    return {Peer::Kind::kHere, "unix socket", {found->second}};
  }
  return {};
}

}  // namespace probing::why
