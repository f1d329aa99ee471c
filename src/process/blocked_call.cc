#include "process/blocked_call.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "arch/native.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stat_line.h"

namespace probing::process {
namespace {

Error Runs() { return {Code::kNotFound, "the thread runs", ""}; }

std::string TaskFolder(const std::string& proc_root, pid_t pid, pid_t tid) {
  return proc_root + "/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/";
}

bool TakeNumber(std::string_view& text, int base, auto& value) {
  const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
  std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  return !word.empty() && error == std::errc() && stop == word.data() + word.size();
}

// Pipes, event and timer descriptors: no time-out but the caller's own. A socket may have one that only
// it knows (SO_RCVTIMEO), a device may do anything.
bool IsPlainWait(pid_t pid, std::uint64_t fd, const std::string& proc_root) {
  const auto file = ReadLink(proc_root + "/" + std::to_string(pid) + "/fd/" + std::to_string(fd));
  return file.ok() && (file->starts_with("pipe:") || file->starts_with("anon_inode:"));
}

// "se.exec_start   :   1015052.428924", in milliseconds.
std::optional<std::int64_t> LastRanNs(const std::string& folder) {
  const auto text = ReadFile(folder + "sched");
  if (!text.ok()) return std::nullopt;
  const std::size_t at = text->find("se.exec_start");
  const std::size_t colon = text->find(':', at);
  if (at == std::string::npos || colon == std::string::npos) return std::nullopt;
  const double milliseconds = std::strtod(text->c_str() + colon + 1, nullptr);
  if (!(milliseconds > 0)) return std::nullopt;
  return std::llround(milliseconds * 1e6);
}

std::optional<int> LastCpu(const std::string& folder) {
  constexpr int kProcessor = 39;
  const auto stat = ReadFile(folder + "stat");
  const auto cpu = stat.ok() ? StatLine(*stat).Field(kProcessor) : std::nullopt;
  return cpu && *cpu < CPU_SETSIZE ? std::optional(static_cast<int>(*cpu)) : std::nullopt;
}

}  // namespace

// "232 0x4 0x7f… (six arguments, stack and instruction pointer)", "-1" with both pointers, or "running".
Result<BlockedCall> ParseBlockedCall(std::string_view text) {
  BlockedCall call;
  if (!TakeNumber(text, 10, call.number)) return Runs();
  if (call.number >= 0) {
    for (std::uint64_t& argument : call.arguments) {
      if (!TakeNumber(text, 16, argument)) return Runs();
    }
  }
  if (!TakeNumber(text, 16, call.stack_pointer) || !TakeNumber(text, 16, call.instruction_pointer) ||
      call.stack_pointer == 0) {
    return Runs();
  }
  return call;
}

Result<BlockedCall> ReadBlockedCall(pid_t pid, pid_t tid, const std::string& proc_root) {
  const auto text = ReadFile(TaskFolder(proc_root, pid, tid) + "syscall");
  if (!text.ok()) return Runs();
  return ParseBlockedCall(*text);
}

std::optional<std::uint64_t> ReadTimesRun(pid_t pid, pid_t tid, const std::string& proc_root) {
  const auto text = ReadFile(TaskFolder(proc_root, pid, tid) + "schedstat");
  if (!text.ok()) return std::nullopt;
  std::string_view rest = *text;
  std::uint64_t number = 0;
  for (int i = 0; i < 3; ++i) {
    if (!TakeNumber(rest, 10, number)) return std::nullopt;
  }
  return number != 0 ? std::optional(number) : std::nullopt;
}

bool SurvivesStop(pid_t pid, const BlockedCall& call, const std::string& proc_root) {
  const auto& argument = call.arguments;
  switch (call.number) {
    case SYS_futex: {
      const std::uint64_t operation = argument[1] & FUTEX_CMD_MASK;
      return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
    }
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case arch::kPoll:
    case SYS_ppoll:      // these three have the time left written
    case arch::kSelect:  // back to the caller's variable
    case SYS_pselect6:
    case SYS_wait4:
    case SYS_waitid:
    case arch::kPause:
    case SYS_rt_sigsuspend:
      return true;
    case arch::kEpollWait:
    case SYS_epoll_pwait:
      return static_cast<std::int32_t>(argument[3]) < 0;
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
      return IsPlainWait(pid, argument[0], proc_root);
    default:
      return false;
  }
}

std::optional<std::int64_t> AsleepForNs(pid_t pid, pid_t tid) {
  const std::string folder = TaskFolder("/proc", pid, tid);
  cpu_set_t before;
  const auto cpu = LastCpu(folder);
  if (!cpu || sched_getaffinity(0, sizeof(before), &before) != 0) return std::nullopt;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(*cpu, &only);
  if (sched_setaffinity(0, sizeof(only), &only) != 0) return std::nullopt;
  const auto ran = LastRanNs(folder);
  SleepUs(1);  // so that this thread starts to run, on that CPU, by the same clock, just now
  const auto now = LastRanNs("/proc/thread-self/");
  sched_setaffinity(0, sizeof(before), &before);
  if (!ran || !now || *now < *ran) return std::nullopt;
  return *now - *ran;
}

}  // namespace probing::process
