#include "observe/host/pidfd.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>

namespace probing::observe {
namespace {

constexpr long kPidfdOpenCall = 434;  // on all architectures; libc's headers may be older

// struct pidfd_info of linux/pidfd.h in its first size, which newer kernels accept.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t pid, tgid, ppid;
  std::uint32_t user_ids[8];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kInfoExit = 1U << 3;
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

ScopedFd OpenPidfd(pid_t pid) { return ScopedFd(static_cast<int>(syscall(kPidfdOpenCall, pid, 0))); }

std::optional<int> ReadExitStatus(const ScopedFd& pidfd) {
  PidfdInfo info{};
  info.mask = kInfoExit;
  if (!pidfd.valid() || ioctl(pidfd.get(), kGetInfo, &info) != 0) return std::nullopt;
  if ((info.mask & kInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

}  // namespace probing::observe
