#include "inject/safe_point.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "process/interrupted_call.h"

namespace probing::inject {
namespace {

constexpr std::uint64_t kMinimumStackBytes = 24 * 1024;  // a signal frame with AMX state + pthread_create
constexpr std::size_t kScannedStackBytes = 16 * 1024;

// A lock that glibc found taken is 2; condition variables, semaphores and joins are not.
constexpr std::uint64_t kContendedLock = 2;

Wait ClassifyFutex(const Syscall& call) {
  const std::uint64_t operation = call.arguments[1] & FUTEX_CMD_MASK;
  const bool has_timeout = call.arguments[3] != 0;
  if (operation == FUTEX_WAIT_BITSET) return Wait::kRepeatable;  // its time-out is absolute
  if (operation != FUTEX_WAIT || call.arguments[2] == kContendedLock) return Wait::kUnknown;
  return has_timeout ? Wait::kTimed : Wait::kRepeatable;
}

bool Endless(std::uint64_t timeout_ms) { return static_cast<std::int32_t>(timeout_ms) < 0; }

// A thread in a signal handler may have been interrupted inside malloc. Looks for the frames
// the kernel left on the stack and applies the rule to the code they interrupted.
Result<bool> InterruptedForbiddenCode(const SafePointRules& rules, const process::Memory& memory,
                                      std::uint64_t stack_pointer, const process::Mapping& stack) {
  constexpr std::size_t kWords = kScannedStackBytes / 8;
  constexpr std::size_t kFlagsAt = 1, kLinkAt = 2, kRipAt = 22, kSegmentsAt = 24;
  constexpr std::uint64_t kUserCodeSegment = 0x33;
  std::array<std::uint64_t, kWords> words{};
  const std::size_t count = std::min<std::size_t>(kWords, (stack.end - stack_pointer) / 8);
  RETURN_IF_ERROR(memory.Read({stack_pointer}, std::as_writable_bytes(std::span(words.data(), count))));
  for (std::size_t i = 0; i + kSegmentsAt < count; ++i) {
    if (words[i] != rules.trampoline.address) continue;
    const bool is_frame = words[i + kFlagsAt] <= 7 && words[i + kLinkAt] == 0 &&
                          (words[i + kSegmentsAt] & 0xffff) == kUserCodeSegment;
    if (is_frame && rules.forbidden.Contains(words[i + kRipAt])) return true;
  }
  return false;
}

}  // namespace

Wait Classify(const Syscall& call) {
  const auto& argument = call.arguments;
  switch (call.number) {
    case SYS_futex:
      return ClassifyFutex(call);
    case SYS_read:
    case SYS_accept:
    case SYS_accept4:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_select:  // the kernel writes the time left back to the caller's variable
      return Wait::kRepeatable;
    case SYS_pselect6:
      // The sixth argument carries a signal mask to be used while waiting; glibc's select()
      // passes an empty one. Which it is is not worth a look into memory.
      return argument[5] == 0 ? Wait::kRepeatable : Wait::kUnknown;
    case SYS_clock_nanosleep:
      return (argument[1] & TIMER_ABSTIME) != 0 ? Wait::kRepeatable : Wait::kTimed;
    case SYS_nanosleep:
      return Wait::kTimed;
    case SYS_poll:
      return Endless(argument[2]) ? Wait::kRepeatable : Wait::kTimed;
    case SYS_epoll_wait:
      return Endless(argument[3]) ? Wait::kRepeatable : Wait::kTimedLost;
    case SYS_epoll_pwait:
      if (argument[4] != 0) return Wait::kUnknown;
      return Endless(argument[3]) ? Wait::kRepeatable : Wait::kTimedLost;
    default:
      return Wait::kUnknown;
  }
}

Syscall SyscallOf(const user_regs_struct& r) {
  return {static_cast<std::int64_t>(r.orig_rax), {r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9}};
}

bool ForbiddenCode::Contains(std::uint64_t address) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return address >= range.start && address < range.end; });
}

Result<Verdict> Judge(const process::TracedThread& thread, const SafePointRules& rules, pid_t pid,
                      const user_regs_struct& registers, user_regs_struct& resume) {
  resume = registers;
  Verdict verdict = Verdict::kSelfReturn;
  const Syscall call = SyscallOf(registers);
  if (call.number >= 0) {
    // A call that is over says nothing: allocators read files, too, under their locks, but never wait there.
    if (!process::WasInterrupted(registers)) return Verdict::kUnsafe;
    process::RestartInterruptedCall(resume);
    const Wait wait = Classify(call);
    if (wait == Wait::kUnknown || rules.loader.Contains(registers.rip)) return Verdict::kUnsafe;
    const bool kernel_knows_time_left = static_cast<std::int64_t>(registers.rax) == process::kRestartBlock;
    if (kernel_knows_time_left && wait == Wait::kTimed) verdict = Verdict::kTimedWait;
  } else {
    const process::Mapping* code = rules.maps.Find(registers.rip);
    if (code == nullptr || !code->executable || rules.forbidden.Contains(registers.rip))
      return Verdict::kUnsafe;
    ASSIGN_OR_RETURN(const bool in_sequence, thread.InRestartableSequence(registers.rip));
    if (in_sequence) return Verdict::kUnsafe;
  }

  const process::Mapping* stack = rules.maps.Find(registers.rsp);
  if (stack == nullptr || !stack->writable || registers.rsp - stack->start < kMinimumStackBytes) {
    return Verdict::kUnsafe;
  }
  ASSIGN_OR_RETURN(const bool in_handler,
                   InterruptedForbiddenCode(rules, process::ProcessMemory(pid), registers.rsp, *stack));
  return in_handler ? Verdict::kUnsafe : verdict;
}

}  // namespace probing::inject
