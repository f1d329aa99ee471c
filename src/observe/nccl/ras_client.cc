#include "observe/nccl/ras_client.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "observe/nccl/ras_status.h"
#include "process/status.h"

namespace probing::observe {
namespace {

constexpr std::int64_t kAnswerMs = 5000;
// NCCL's own, for each connection between its processes: one that hangs costs no more of ours.
constexpr std::string_view kRasTimeout = "TIMEOUT 2";
constexpr std::size_t kMaxLineBytes = 4096;
constexpr timeval kKernelPatience{0, 200'000};

using Socket = sockaddr_storage;

socklen_t SizeOf(const Socket& address) {
  return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

std::optional<Socket> ToSocket(const std::string& host, std::uint16_t port) {
  Socket address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return address;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    return address;
  }
  return std::nullopt;
}

// What to connect to, in this order. A process that listens everywhere is asked on the loopback.
std::vector<Socket> SocketsOf(const RasAddress& address) {
  std::vector<Socket> all;
  const auto add = [&](const std::string& host) {
    if (const auto each = ToSocket(host, address.port)) all.push_back(*each);
  };
  if (address.host == "localhost" || address.host == "0.0.0.0" || address.host == "::") {
    add("127.0.0.1");
    add("::1");
  } else {
    add(address.host);
  }
  return all;
}

// The user whose process listens at an address of this host, as the kernel knows it.
std::optional<uid_t> ListenerOf(const Socket& address) {
  struct {
    nlmsghdr header;
    inet_diag_req_v2 request;
  } question{};
  question.header.nlmsg_len = sizeof(question);
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<__u8>(address.ss_family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  inet_diag_sockid& id = question.request.id;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    id.idiag_sport = v4.sin_port;
    id.idiag_src[0] = v4.sin_addr.s_addr;
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    id.idiag_sport = v6.sin6_port;
    std::memcpy(id.idiag_src, &v6.sin6_addr, sizeof(v6.sin6_addr));
  }
  const ScopedFd netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.valid()) return std::nullopt;
  setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &kKernelPatience, sizeof(kKernelPatience));
  if (send(netlink.get(), &question, sizeof(question), 0) != sizeof(question)) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 4096> buffer;
  const ssize_t size = recv(netlink.get(), buffer.data(), buffer.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) ||
      header->nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return std::nullopt;
  inet_diag_msg found;
  std::memcpy(&found, NLMSG_DATA(header), sizeof(found));
  if (found.id.idiag_sport != id.idiag_sport || found.idiag_inode == 0) return std::nullopt;
  return found.idiag_uid;
}

bool WaitFor(int fd, short events, const Deadline& deadline) {
  pollfd ready{fd, events, 0};
  int n = 0;
  while ((n = poll(&ready, 1, deadline.left_ms())) < 0 && errno == EINTR) {
  }
  return n > 0;
}

// Nothing when nobody listens.
Result<std::optional<ScopedFd>> Connect(const Socket& address, const Deadline& deadline) {
  ScopedFd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return std::optional<ScopedFd>();  // a host without IPv6
  int error = 0;
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), SizeOf(address)) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!WaitFor(fd.get(), POLLOUT, deadline)) return Error{Code::kTimeout, "it does not accept", ""};
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) return std::optional<ScopedFd>();
  return std::optional<ScopedFd>(std::move(fd));
}

// One conversation: lines to it, a line or all of the rest from it.
class Conversation {
 public:
  Conversation(ScopedFd fd, const Deadline& deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  // Lines are short and the socket's buffer is empty: what does not fit is an error.
  Result<void> Say(std::string_view line) {
    const std::string text = std::string(line) + "\n";
    if (send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
      return Error{Code::kFailed, "it hung up", ""};
    return {};
  }

  Result<std::string> Line() {
    std::size_t end = 0;
    while ((end = read_.find('\n')) == std::string::npos) {
      if (read_.size() > kMaxLineBytes) return Error{Code::kFailed, "it does not speak NCCL's protocol", ""};
      ASSIGN_OR_RETURN(const bool more, ReadMore());
      if (!more) return Error{Code::kFailed, "it hung up", ""};
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return line;
  }

  Result<std::string> Rest() {
    while (true) {
      if (read_.size() > kMaxRasBytes)
        return Error{Code::kFailed, "it answers more than " + std::to_string(kMaxRasBytes >> 20) + " MB", ""};
      ASSIGN_OR_RETURN(const bool more, ReadMore());
      if (!more) return std::move(read_);
    }
  }

 private:
  // False at the end.
  Result<bool> ReadMore() {
    std::array<char, 65536> bytes;
    // Also of one that never stops sending, where nothing is ever waited for.
    if (deadline_.passed() || !WaitFor(fd_.get(), POLLIN, deadline_))
      return Error{Code::kTimeout, "it did not answer within " + std::to_string(kAnswerMs / 1000) + " s", ""};
    const ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EAGAIN) return true;
    if (got < 0) return Error{Code::kFailed, "it hung up", ""};
    read_.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  ScopedFd fd_;
  Deadline deadline_;
  std::string read_;
};

Result<std::string> Talk(Conversation& with) {
  RETURN_IF_ERROR(with.Say("CLIENT PROTOCOL 2"));
  ASSIGN_OR_RETURN(const std::string protocol, with.Line());
  if (!protocol.starts_with("SERVER PROTOCOL "))
    return Error{Code::kFailed, "it does not speak NCCL's protocol", ""};
  RETURN_IF_ERROR(with.Say(kRasTimeout));
  ASSIGN_OR_RETURN(const std::string timeout, with.Line());
  if (timeout != "OK") return Error{Code::kFailed, "it does not speak NCCL's protocol", ""};
  // NCCL before 2.28 says that it does not know this, and answers in text.
  RETURN_IF_ERROR(with.Say("SET FORMAT json"));
  ASSIGN_OR_RETURN(const std::string format, with.Line());
  if (format != "OK" && !format.starts_with("ERROR: "))
    return Error{Code::kFailed, "it does not speak NCCL's protocol", ""};
  RETURN_IF_ERROR(with.Say("VERBOSE STATUS"));
  return with.Rest();
}

}  // namespace

std::string RasAddress::ToText() const {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<std::optional<RasAddress>> ParseRasAddress(std::string_view environment) {
  RasAddress address{"localhost", kRasPort};
  std::string_view named;
  while (!environment.empty()) {
    const std::string_view entry = TakePart(environment, '\0');
    if (entry == "NCCL_RAS_ENABLE=0") return std::optional<RasAddress>();
    if (entry.starts_with("NCCL_RAS_ADDR=")) named = entry.substr(entry.find('=') + 1);
  }
  if (named.empty()) return std::optional<RasAddress>(address);
  const std::size_t colon = named.rfind(':');
  const Error wrong{Code::kUsage, "NCCL_RAS_ADDR of the process is no IP address with a port",
                    "NCCL_RAS_ADDR=127.0.0.1:28029 is one that can be asked"};
  if (colon == std::string_view::npos || named.size() > 100) return wrong;
  address.host = std::string(Trim(named.substr(0, colon), "[]"));
  if (!ParseNumber(named.substr(colon + 1), address.port) || address.port == 0) return wrong;
  if (address.host != "localhost" && !ToSocket(address.host, address.port)) return wrong;
  return std::optional<RasAddress>(address);
}

Result<std::optional<RasAddress>> RasAddressOf(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const Result<process::Status> status = process::ReadStatus(pid);
  const std::optional<RasAddress> none;
  if (!status.ok() || status->effective_uid != geteuid() || status->real_uid != geteuid()) return none;
  for (const char* kind : {"/ns/user", "/ns/pid", "/ns/net"}) {
    const Result<std::string> own = ReadLink(std::string("/proc/self") + kind);
    const Result<std::string> its = ReadLink(folder + kind);
    if (own.ok() && (!its.ok() || *own != *its)) return none;
  }
  const Result<std::string> environment = ReadFile(folder + "/environ");
  if (!environment.ok()) return none;
  return ParseRasAddress(*environment);
}

bool IsLocalAddress(const std::string& address) {
  const std::optional<Socket> wanted = ToSocket(address, 0);
  if (!wanted) return false;
  const auto bytes = [](const sockaddr* from) -> std::string_view {
    if (from->sa_family == AF_INET)
      return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(from)->sin_addr), 4};
    if (from->sa_family == AF_INET6)
      return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr), 16};
    return {};
  };
  const std::string_view want = bytes(reinterpret_cast<const sockaddr*>(&*wanted));
  if (wanted->ss_family == AF_INET && want.front() == IN_LOOPBACKNET) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr != nullptr && bytes(each->ifa_addr) == want) return true;
  }
  return false;
}

Result<std::optional<std::string>> AskRas(const RasAddress& address) {
  const Deadline deadline = Deadline::AfterMs(kAnswerMs);
  const auto about = [&](Error error) {
    error.message = "NCCL's RAS port at " + address.ToText() + ": " + error.message;
    return error;
  };
  const bool is_loopback = address.host == "localhost" || address.host == "0.0.0.0" || address.host == "::";
  if (!is_loopback && !IsLocalAddress(address.host))
    return about(
        {Code::kPermission, "not asked, it is no address of this host", "ask on the host that has it"});
  for (const Socket& each : SocketsOf(address)) {
    Result<std::optional<ScopedFd>> fd = Connect(each, deadline);
    if (!fd.ok()) return about(fd.error());
    if (!*fd) continue;
    const std::optional<uid_t> owner = ListenerOf(each);
    if (!owner || *owner != geteuid())
      return about({Code::kPermission, "not asked, a process of another user listens there", ""});
    Conversation conversation(std::move(**fd), deadline);
    Result<std::string> answer = Talk(conversation);
    if (!answer.ok()) return about(answer.error());
    return std::optional<std::string>(std::move(*answer));
  }
  return std::optional<std::string>();
}

}  // namespace probing::observe
