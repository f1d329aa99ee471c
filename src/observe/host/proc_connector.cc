#include "observe/host/proc_connector.h"

#include <arpa/inet.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "observe/host/kernel_pids.h"

namespace probing::observe {
namespace {

constexpr std::size_t kRemembered = 4096;
constexpr int kSocketBuffer = 1 << 20;

// Where things are in a message: headers of netlink and connector, then the event.
constexpr std::size_t kEventOffset = sizeof(nlmsghdr) + sizeof(cn_msg);
static_assert(kEventOffset == 36);
constexpr std::uint32_t kWhatExit = 0x80000000;  // PROC_EVENT_EXIT
struct ExitEvent {
  std::uint32_t what;
  std::uint32_t cpu;
  std::uint64_t time_ns;
  std::int32_t pid, tgid;
  std::uint32_t exit_code;
};
constexpr std::size_t kExitEventBytes = offsetof(ExitEvent, exit_code) + sizeof(std::uint32_t);
static_assert(offsetof(ExitEvent, pid) == 16 && offsetof(ExitEvent, tgid) == 20 && kExitEventBytes == 28);

// Passes the end of whole processes. The filter's machine reads numbers in network order.
bool AttachFilter(int socket) {
  const auto load = [](std::size_t offset) {
    return sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(kEventOffset + offset)));
  };
  std::array<sock_filter, 8> program{
      load(offsetof(ExitEvent, what)),
      sock_filter(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(kWhatExit), 0, 4)),
      load(offsetof(ExitEvent, pid)),
      sock_filter(BPF_STMT(BPF_MISC | BPF_TAX, 0)),
      load(offsetof(ExitEvent, tgid)),
      sock_filter(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0)),
      sock_filter(BPF_STMT(BPF_RET | BPF_K, 0)),
      sock_filter(BPF_STMT(BPF_RET | BPF_K, 0xFFFFFFFF)),
  };
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) == 0;
}

bool Subscribe(int socket) {
  struct {
    nlmsghdr netlink;
    std::array<char, sizeof(cn_msg) + sizeof(std::uint32_t)> body;
  } message{};
  static_assert(sizeof(message) == 40);
  cn_msg head{};
  head.id.idx = CN_IDX_PROC;
  head.id.val = CN_VAL_PROC;
  head.len = sizeof(std::uint32_t);
  const std::uint32_t listen = PROC_CN_MCAST_LISTEN;
  std::memcpy(message.body.data(), &head, sizeof(cn_msg));
  std::memcpy(message.body.data() + sizeof(cn_msg), &listen, sizeof(listen));
  message.netlink.nlmsg_len = sizeof(message);
  message.netlink.nlmsg_type = NLMSG_DONE;
  return send(socket, &message, sizeof(message), 0) == sizeof(message);
}

}  // namespace

Result<ProcConnector> ProcConnector::Open() {
  if (!KernelMeansOurPids()) {
    return Error{Code::kFailed, "the kernel's process events are not about the pids of this container", ""};
  }
  ScopedFd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR));
  if (!socket.valid()) return ErrnoError("open the kernel's process events");
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = CN_IDX_PROC;
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoError("listen to the kernel's process events");
  }
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof(kSocketBuffer));
  if (!AttachFilter(socket.get())) return ErrnoError("filter the kernel's process events");
  if (!Subscribe(socket.get())) return ErrnoError("subscribe to the kernel's process events");
  return ProcConnector(std::move(socket));
}

std::optional<int> ProcConnector::ExitStatusOf(pid_t pid) {
  const std::lock_guard lock(mutex_);
  ReadNews();
  const auto found = statuses_.find(pid);
  if (found == statuses_.end()) return std::nullopt;
  return found->second;
}

void ProcConnector::ReadNews() {
  std::array<char, 1024> message;
  while (true) {
    sockaddr_nl sender{};
    socklen_t length = sizeof(sender);
    const ssize_t n = recvfrom(socket_.get(), message.data(), message.size(), 0,
                               reinterpret_cast<sockaddr*>(&sender), &length);
    if (n < 0 && (errno == EINTR || errno == ENOBUFS)) continue;  // ENOBUFS: some were lost
    if (n < 0) return;
    // Only the kernel is port 0; other processes can send to us as well.
    if (sender.nl_pid != 0 || static_cast<std::size_t>(n) < kEventOffset + kExitEventBytes) continue;
    ExitEvent event{};
    std::memcpy(&event, message.data() + kEventOffset, kExitEventBytes);
    if (event.what != kWhatExit || event.pid != event.tgid) continue;
    if (statuses_.insert_or_assign(event.pid, static_cast<int>(event.exit_code)).second) {
      order_.push_back(event.pid);
    }
    if (order_.size() > kRemembered) {
      statuses_.erase(order_.front());
      order_.pop_front();
    }
  }
}

}  // namespace probing::observe
