#include "inject/safe_point.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "inject/own_stack.h"
#include "process/interrupted_call.h"

namespace probing::inject {
namespace {

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
    case arch::kSelect:  // the kernel writes the time left back to the caller's variable
      return Wait::kRepeatable;
    case SYS_pselect6:
      // The sixth argument carries a signal mask to be used while waiting; glibc's select()
      // passes an empty one. Which it is is not worth a look into memory.
      return argument[5] == 0 ? Wait::kRepeatable : Wait::kUnknown;
    case SYS_clock_nanosleep:
      return (argument[1] & TIMER_ABSTIME) != 0 ? Wait::kRepeatable : Wait::kTimed;
    case SYS_nanosleep:
      return Wait::kTimed;
    case SYS_ppoll:
      // The time left is written back, too: to a copy of glibc's. On arm64 poll() is this call.
      return argument[3] == 0 ? Wait::kRepeatable : Wait::kUnknown;
    case arch::kPoll:
      return Endless(argument[2]) ? Wait::kRepeatable : Wait::kTimed;
    case arch::kEpollWait:
      return Endless(argument[3]) ? Wait::kRepeatable : Wait::kTimedLost;
    case SYS_epoll_pwait:
      if (argument[4] != 0) return Wait::kUnknown;
      return Endless(argument[3]) ? Wait::kRepeatable : Wait::kTimedLost;
    default:
      return Wait::kUnknown;
  }
}

Syscall SyscallOf(const arch::Registers& r) {
  Syscall call{r.syscall(), {}, r.sp()};
  for (std::size_t i = 0; i < call.arguments.size(); ++i) call.arguments[i] = r.syscall_argument(i);
  return call;
}

bool ForbiddenCode::Contains(std::uint64_t address) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const Range& range) { return address >= range.start && address < range.end; });
}

const char* Describe(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSelfReturn:
    case Verdict::kTimedWait:
      return "";
    case Verdict::kForbiddenCode:
      return "was inside the C library, the loader, an allocator or the vdso";
    case Verdict::kUnknownWait:
      return "waited in a system call that may be a lock";
    case Verdict::kInSequence:
      return "was in a restartable sequence";
    case Verdict::kHandlerOverForbiddenCode:
      return "was in a signal handler that had interrupted the C library, the loader or an allocator";
    case Verdict::kForeignStack:
      return "was on a stack that is not its own (an alternate signal stack or a coroutine's)";
    case Verdict::kLittleStack:
      return "had too little room left on its stack";
    case Verdict::kDeepStack:
      return "used more of its stack than can be looked through";
    case Verdict::kFiltered:
      return "has a seccomp filter of its own, which may kill it for our system calls";
  }
  return "";
}

bool MayInterrupt(const SafePointRules& rules, std::uint64_t instruction_pointer) {
  const process::Mapping* code = rules.maps.Find(instruction_pointer);
  return code != nullptr && code->executable && !rules.forbidden.Contains(instruction_pointer);
}

Verdict JudgePlace(const SafePointRules& rules, const arch::Registers& registers, bool in_sequence,
                   arch::Registers& resume) {
  resume = registers;
  const Syscall call = SyscallOf(registers);
  if (call.number < 0) {
    if (!MayInterrupt(rules, registers.ip())) return Verdict::kForbiddenCode;
    return in_sequence ? Verdict::kInSequence : Verdict::kSelfReturn;
  }
  // A call that is over says nothing: allocators read files, too, under their locks, but never wait there.
  if (!process::WasInterrupted(registers)) return Verdict::kUnknownWait;
  process::RestartInterruptedCall(resume);
  const Wait wait = Classify(call);
  if (wait == Wait::kUnknown || rules.never_waits_safely.Contains(registers.ip())) {
    return Verdict::kUnknownWait;
  }
  const bool kernel_knows_time_left = registers.result() == process::kRestartBlock;
  return kernel_knows_time_left && wait == Wait::kTimed ? Verdict::kTimedWait : Verdict::kSelfReturn;
}

Result<Verdict> Judge(const process::TracedThread& thread, const SafePointRules& rules, pid_t pid,
                      const arch::Registers& registers, arch::Registers& resume) {
  bool in_sequence = false;
  if (SyscallOf(registers).number < 0) {
    ASSIGN_OR_RETURN(in_sequence, thread.InRestartableSequence(registers.ip()));
  }
  const Verdict place = JudgePlace(rules, registers, in_sequence, resume);
  if (!MayBorrow(place)) return place;

  const process::ProcessMemory memory(pid);
  std::array<std::uint64_t, kDescriptorBytes / 8> descriptor{};
  // A thread without one has no stack that we would know.
  (void)memory.Read({registers.thread_pointer() - arch::kDescriptorBelow},
                    std::as_writable_bytes(std::span(descriptor)));
  const auto stack = OwnStack(rules.maps, StackOfDescriptor(registers.thread_pointer(), descriptor),
                              registers.sp(), thread.tid() == pid);
  if (!stack) return Verdict::kForeignStack;
  ASSIGN_OR_RETURN(const Verdict on_stack, JudgeStack(rules, memory, *stack, registers.sp()));
  return MayBorrow(on_stack) ? place : on_stack;
}

}  // namespace probing::inject
