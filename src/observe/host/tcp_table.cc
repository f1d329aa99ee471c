#include "observe/host/tcp_table.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace probing::observe {
namespace {

constexpr std::uint32_t kEstablished = 1U << 1;  // TCP_ESTABLISHED of <netinet/tcp.h>
constexpr timeval kPatience{0, 200'000};
constexpr std::size_t kBufferBytes = 64 * 1024;

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

bool IsOurs(const std::string& namespace_path) {
  struct stat own{};
  struct stat its{};
  return stat("/proc/self/ns/net", &own) == 0 && stat(namespace_path.c_str(), &its) == 0 &&
         own.st_ino == its.st_ino && own.st_dev == its.st_dev;
}

ScopedFd OpenHere() { return ScopedFd(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)); }

// A socket belongs to the namespace it was made in for ever. The thread is for this only: the others stay
// where they are.
ScopedFd OpenThere(const std::string& namespace_path) {
  struct Work {
    const std::string& path;
    ScopedFd made;
  } work{namespace_path, {}};
  const auto run = [](void* argument) -> void* {
    Work& asked = *static_cast<Work*>(argument);
    const ScopedFd space(open(asked.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (space.valid() && setns(space.get(), CLONE_NEWNET) == 0) asked.made = OpenHere();
    return nullptr;
  };
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, run, &work) == 0) pthread_join(thread, nullptr);
  return std::move(work.made);
}

std::string AddressText(int family, const __be32 (&address)[4], __be16 port) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  const std::string_view mapped = "::ffff:";
  std::string_view host = text.data();
  const bool is_mapped = host.starts_with(mapped) && host.find('.') != std::string_view::npos;
  if (is_mapped) host.remove_prefix(mapped.size());
  std::string result(host);
  if (family == AF_INET6 && !is_mapped) result = "[" + result + "]";
  return result + ":" + std::to_string(ntohs(port));
}

// Kernels append to it: what this one has not written is not known.
template <typename Member>
Number Field(const tcp_info& info, std::size_t size, Member tcp_info::* member) {
  const auto* at = reinterpret_cast<const char*>(&(info.*member));
  const auto end = static_cast<std::size_t>(at - reinterpret_cast<const char*>(&info)) + sizeof(Member);
  if (end > size) return std::nullopt;
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(info.*member, static_cast<std::uint64_t>(INT64_MAX)));
}

void ReadInfo(const char* data, std::size_t size, TcpConnection& connection) {
  tcp_info info{};
  size = std::min(size, sizeof(info));
  std::memcpy(&info, data, size);
  connection.rtt_us = info.tcpi_rtt;
  connection.retransmissions = info.tcpi_total_retrans;
  connection.unsent_bytes = Field(info, size, &tcp_info::tcpi_notsent_bytes).value_or(0);
  connection.min_rtt_us = Field(info, size, &tcp_info::tcpi_min_rtt);
  connection.sent_bytes = Field(info, size, &tcp_info::tcpi_bytes_acked);
  connection.received_bytes = Field(info, size, &tcp_info::tcpi_bytes_received);
  connection.delivery_rate = Field(info, size, &tcp_info::tcpi_delivery_rate);
  connection.busy_us = Field(info, size, &tcp_info::tcpi_busy_time);
  connection.peer_limited_us = Field(info, size, &tcp_info::tcpi_rwnd_limited);
}

using Connections = std::unordered_map<ino_t, TcpConnection>;

void ReadConnection(const nlmsghdr* header, Connections& connections) {
  if (header->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return;
  const auto* message = static_cast<const inet_diag_msg*>(NLMSG_DATA(header));
  TcpConnection& connection = connections[message->idiag_inode];
  const inet_diag_sockid& id = message->id;
  connection.local = AddressText(message->idiag_family, id.idiag_src, id.idiag_sport);
  connection.remote = AddressText(message->idiag_family, id.idiag_dst, id.idiag_dport);
  const auto* attribute = reinterpret_cast<const nlattr*>(message + 1);
  std::size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof(inet_diag_msg));
  while (left >= NLA_HDRLEN && attribute->nla_len >= NLA_HDRLEN && attribute->nla_len <= left) {
    const char* data = reinterpret_cast<const char*>(attribute) + NLA_HDRLEN;
    if (attribute->nla_type == INET_DIAG_INFO) ReadInfo(data, attribute->nla_len - NLA_HDRLEN, connection);
    const std::size_t step = std::min<std::size_t>(NLA_ALIGN(attribute->nla_len), left);
    attribute = reinterpret_cast<const nlattr*>(reinterpret_cast<const char*>(attribute) + step);
    left -= step;
  }
}

Result<void> Dump(int netlink, int family, Connections& connections) {
  Question question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.request.sdiag_family = static_cast<__u8>(family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = kEstablished;
  question.request.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  if (send(netlink, &question, sizeof(question), 0) != sizeof(question)) return ErrnoError("ask for sockets");
  std::vector<char> buffer(kBufferBytes);
  while (true) {
    const ssize_t size = recv(netlink, buffer.data(), buffer.size(), 0);
    if (size <= 0) return ErrnoError("read the list of sockets");
    auto left = static_cast<std::uint32_t>(size);
    for (const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return {};
      if (header->nlmsg_type == NLMSG_ERROR)
        return Error{Code::kFailed, "the kernel does not list sockets", ""};
      ReadConnection(header, connections);
    }
  }
}

}  // namespace

Result<TcpTable> TcpTable::Open(const std::string& namespace_path) {
  ScopedFd netlink = IsOurs(namespace_path) ? OpenHere() : OpenThere(namespace_path);
  if (!netlink.valid())
    return Error{Code::kPermission, "the connections of another network namespace are seen by root only", ""};
  setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  return TcpTable(std::move(netlink));
}

Result<Connections> TcpTable::Read() {
  Connections connections;
  RETURN_IF_ERROR(Dump(netlink_.get(), AF_INET, connections));
  RETURN_IF_ERROR(Dump(netlink_.get(), AF_INET6, connections));
  return connections;
}

}  // namespace probing::observe
