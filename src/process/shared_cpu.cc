#include "process/shared_cpu.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "base/stat_line.h"

namespace probing::process {
namespace {

using Buffer = std::array<char, 1024>;

// Numbers of fields in /proc/PID/task/TID/stat, as in proc(5).
constexpr int kCpu = 39;
constexpr int kPolicy = 41;

std::string_view ReadAgain(const ScopedFd& fd, Buffer& buffer) {
  const ssize_t n = fd.valid() ? pread(fd.get(), buffer.data(), buffer.size(), 0) : 0;
  return {buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
}

// Field `index` of words between spaces, from 0.
std::optional<std::uint64_t> NumberAt(std::string_view text, int index) {
  for (; index > 0; --index) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
  std::uint64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

std::int64_t OwnSwitches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return std::int64_t{usage.ru_nvcsw} + usage.ru_nivcsw;
}

}  // namespace

SharedCpu::SharedCpu(pid_t pid, pid_t tid, const std::string& proc_root) {
  const std::string folder = proc_root + "/" + std::to_string(pid) + "/task/" + std::to_string(tid);
  stat_ = ScopedFd(open((folder + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  schedstat_ = ScopedFd(open((folder + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC));
  can_ever_ = sched_getaffinity(0, sizeof(before_), &before_) == 0;
}

std::optional<SharedCpu::Look> SharedCpu::LookNow() const {
  Buffer buffer;
  Look look;
  look.own_switches = OwnSwitches();
  if (const auto times = NumberAt(ReadAgain(schedstat_, buffer), 2)) look.times_run = *times;
  const StatLine stat(ReadAgain(stat_, buffer));
  const auto cpu = stat.Field(kCpu);
  const auto policy = stat.Field(kPolicy);
  if (!cpu || !policy || *cpu >= CPU_SETSIZE) return std::nullopt;
  look.cpu = static_cast<int>(*cpu);
  look.is_fair = *policy == SCHED_OTHER || *policy == SCHED_BATCH || *policy == SCHED_IDLE;
  return look;
}

bool SharedCpu::Enter() {
  if (!can_ever_) return false;
  const auto there = LookNow();
  if (!there || !there->is_fair) {
    can_ever_ = false;
    return false;
  }
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(there->cpu, &only);
  if (sched_setaffinity(0, sizeof(only), &only) != 0) {
    can_ever_ = false;
    return false;
  }
  is_elsewhere_ = true;
  const auto now = LookNow();
  if (!now) {
    can_ever_ = false;
    return false;
  }
  entered_ = *now;
  return now->cpu == there->cpu;  // we run there, so it does not
}

bool SharedCpu::StoodStill() const {
  const auto now = LookNow();
  return now && now->cpu == entered_.cpu && now->times_run == entered_.times_run &&
         now->own_switches == entered_.own_switches;
}

void SharedCpu::Leave() {
  if (!is_elsewhere_) return;
  sched_setaffinity(0, sizeof(before_), &before_);
  is_elsewhere_ = false;
}

}  // namespace probing::process
