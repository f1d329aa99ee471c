// Borrows one thread of the target for the time of a pthread_create.
//
// The new thread sleeps for a number of microseconds that nobody else would choose, by which it
// is recognised; it is where everything slow happens, while the borrowed thread is long back at
// work.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/clock.h"
#include "inject/entry_points.h"
#include "inject/way_back.h"
#include "process/traced_thread.h"

namespace probing::inject {

struct Borrowed {
  pid_t thread = 0;
  std::int64_t held_us = 0;  // the longest stop of any thread
  int attempts = 0;
};

// Makes some thread of `pid` call pthread_create(&t, detached, usleep, sleep_us).
Result<Borrowed> StartHelper(pid_t pid, EntryPoints points, std::uint64_t sleep_us, const Deadline& deadline);

// The state of a stopped thread that should continue with `resume`.
Result<SavedState> SaveState(const process::TracedThread& thread, const user_regs_struct& resume);

// The system call a thread waits in, as /proc tells without stopping it; number −1 when it runs.
Result<Syscall> PeekSyscall(pid_t pid, pid_t tid);

}  // namespace probing::inject
