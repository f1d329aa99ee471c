// Where a thread may be borrowed, and how an interrupted system call goes on afterwards.
//
// Calling into a thread that is inside malloc or the dynamic loader corrupts the heap or hangs
// at the next lock: in measurements 10–30 % of targets died. A thread is at a safe point when
// it waits in a system call in which no allocator or loader would wait, or runs code outside of them.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstdint>
#include <vector>

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
};

Wait Classify(const Syscall& call);

Syscall SyscallOf(const user_regs_struct& registers);

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
  ForbiddenCode forbidden;            // libc, ld.so, allocators
  ForbiddenCode loader;               // ld.so alone: forbidden even while waiting
  process::RemoteAddress trampoline;  // the signal return trampoline
};

enum class Verdict : std::uint8_t {
  kUnsafe,      // let it run on and try again
  kSelfReturn,  // may be borrowed; registers in `resume` bring it back
  kTimedWait,   // may be borrowed, but the injector itself must put the registers back
};

// Judges a stopped thread. `resume` becomes what the thread should continue with.
Result<Verdict> Judge(const process::TracedThread& thread, const SafePointRules& rules, pid_t pid,
                      const user_regs_struct& registers, user_regs_struct& resume);

}  // namespace probing::inject
