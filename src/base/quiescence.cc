#include "base/quiescence.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/scoped_fd.h"
#include "base/stat_line.h"

namespace probing {
namespace {

// Far more than the instructions need, also when each of them faults a page in.
constexpr std::int64_t kRunNs = 200'000;
constexpr std::int64_t kPauseUs = 200;

struct OtherThread {
  pid_t tid = 0;
  std::int64_t cpu_ns = 0;
};

// The CPU time a thread of this process has used; nullopt when it is gone.
std::optional<std::int64_t> CpuNs(pid_t tid) {
  // As the kernel numbers the clocks of threads (CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED).
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(tid) << 3) | 6U);
  timespec used{};
  if (clock_gettime(clock, &used) != 0) return std::nullopt;
  return used.tv_sec * 1'000'000'000LL + used.tv_nsec;
}

// Whether the thread waits in a system call. A thread that waits for a page ('D') or is stopped ('T', 't')
// may be anywhere.
bool Sleeps(pid_t tid) {
  std::array<char, 64> path;
  std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", static_cast<int>(tid));
  const ScopedFd file(open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text;
  const ssize_t size = file.valid() ? read(file.get(), text.data(), text.size()) : 0;
  return StatLine({text.data(), size > 0 ? static_cast<std::size_t>(size) : 0}).state() == 'S';
}

std::optional<std::vector<OtherThread>> OtherThreads() {
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return std::nullopt;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  std::vector<OtherThread> found;
  while (const dirent* entry = readdir(folder)) {
    const pid_t tid = std::atoi(entry->d_name);
    if (tid <= 0 || tid == self) continue;
    if (const auto cpu_ns = CpuNs(tid)) found.push_back({tid, *cpu_ns});
  }
  closedir(folder);
  return found;
}

}  // namespace

bool WaitForQuiescence(std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  std::optional<std::vector<OtherThread>> others = OtherThreads();
  if (!others.has_value()) return false;
  const auto is_through = [](const OtherThread& other) {
    const std::optional<std::int64_t> now_ns = CpuNs(other.tid);
    return !now_ns.has_value() || *now_ns - other.cpu_ns >= kRunNs || Sleeps(other.tid);
  };
  while (true) {
    std::erase_if(*others, is_through);
    if (others->empty()) return true;
    if (deadline.passed()) return false;
    SleepUs(kPauseUs);
  }
}

}  // namespace probing
