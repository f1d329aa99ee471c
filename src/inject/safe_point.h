// Where a thread may be borrowed, and how an interrupted system call goes on afterwards.
//
// Calling into a thread that is inside malloc or the dynamic loader corrupts the heap or hangs
// at the next lock: in measurements 10–30 % of targets died. A thread is at a safe point when
// it waits in a system call in which no allocator or loader would wait, or runs code outside of them,
// and when it is on its own stack, with room below and no signal handler over such code (own_stack.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/registers.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/traced_thread.h"

namespace probing::inject {

// What a system call allows while a thread waits in it. The order is the order of preference.
enum class Wait : std::uint8_t {
  kRepeatable,  // executing it again from the start means the same
  kTimed,       // has a relative time-out: only the kernel's own restart keeps the time left
  kTimedLost,   // the kernel has already given the rest of the time up (epoll_wait)
  kUnknown,     // may be a lock of the allocator or the loader: not a safe point
};

struct Syscall {
  std::int64_t number = -1;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0;
};

Wait Classify(const Syscall& call);

Syscall SyscallOf(const arch::Registers& registers);

// Code that must not be interrupted for a call: the C library, the loader, other allocators.
class ForbiddenCode {
 public:
  void Add(const process::Mapping& mapping) { ranges_.push_back({mapping.start, mapping.end}); }
  bool Contains(std::uint64_t address) const;

 private:
  struct Range {
    std::uint64_t start, end;
  };
  std::vector<Range> ranges_;
};

struct SafePointRules {
  process::Maps maps;
  // libc, ld.so, allocators; and the vdso, which any of them may call with its locks held (clock_gettime).
  ForbiddenCode forbidden;
  // ld.so and allocators other than libc's: forbidden even while waiting. They spin and sleep for locks of
  // their own, which no value of a futex gives away.
  ForbiddenCode never_waits_safely;
};

enum class Verdict : std::uint8_t {
  kSelfReturn,  // may be borrowed; registers in `resume` bring it back
  kTimedWait,   // may be borrowed, but the injector itself must put the registers back
  // Not now. These pass by themselves within microseconds:
  kForbiddenCode,
  kUnknownWait,
  kInSequence,
  // These may last:
  kHandlerOverForbiddenCode,
  kForeignStack,
  kLittleStack,
  kDeepStack,
  kFiltered,
};
inline constexpr std::size_t kVerdicts = static_cast<std::size_t>(Verdict::kFiltered) + 1;

constexpr bool MayBorrow(Verdict verdict) { return verdict <= Verdict::kTimedWait; }
// Another thread should be tried first.
constexpr bool MayLast(Verdict verdict) { return verdict >= Verdict::kHandlerOverForbiddenCode; }
// What such a thread does, to follow "a thread"; "" for one that may be borrowed.
const char* Describe(Verdict verdict);

// May code be made to call something else here?
bool MayInterrupt(const SafePointRules& rules, std::uint64_t instruction_pointer);

// Judges the place where a thread stopped, without regard to its stack. `resume` becomes what the thread
// should continue with.
Verdict JudgePlace(const SafePointRules& rules, const arch::Registers& registers, bool in_sequence,
                   arch::Registers& resume);

// Judges a stopped thread by its place and its stack.
Result<Verdict> Judge(const process::TracedThread& thread, const SafePointRules& rules, pid_t pid,
                      const arch::Registers& registers, arch::Registers& resume);

}  // namespace probing::inject
