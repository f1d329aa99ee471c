// Borrows one thread of the target for the time of a pthread_create.
//
// The new thread sleeps for a number of microseconds that nobody else would choose, by which it
// is recognised; it is where everything slow happens, while the borrowed thread is long back at
// work.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "arch/registers.h"
#include "base/clock.h"
#include "inject/entry_points.h"
#include "inject/way_back.h"
#include "process/traced_thread.h"

namespace probing::inject {

struct Borrowed {
  pid_t thread = 0;
  std::int64_t held_us = 0;  // the longest stop of any thread
  int attempts = 0;
  std::uint64_t call_stack_pointer = 0;  // of the call that it was made to do, at its first instruction
};

// Makes some thread of `pid` call pthread_create(&t, detached, usleep, sleep_us).
Result<Borrowed> StartHelper(pid_t pid, EntryPoints points, std::uint64_t sleep_us, const Deadline& deadline);

// To be asked when the helper does not appear: an error when the borrowed thread waited inside that call. Its
// locks cannot be told from outside, so an allocator that sleeps while it holds one may have been taken for
// a thread that may be borrowed; it would wait for itself for ever. It goes back as if the call had failed.
Result<void> TakeBackIfStuck(pid_t pid, const Borrowed& borrowed, const EntryPoints& points,
                             const Deadline& deadline);

// How long a helper may take to appear before that is worth a question.
inline constexpr std::int64_t kPatienceMs = 300;

// The state of a stopped thread that should continue with `resume`.
Result<SavedState> SaveState(const process::TracedThread& thread, const arch::Registers& resume);

// The system call a thread waits in, as /proc tells without stopping it; number −1 when it runs.
Result<Syscall> PeekSyscall(pid_t pid, pid_t tid);

}  // namespace probing::inject
