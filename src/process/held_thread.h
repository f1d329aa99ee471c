// One thread that stands still for some tens of microseconds, so that what is read of it is of one instant.
//
// Leaving the scope lets it go; if this process dies instead, the kernel does. The thread does not notice: a
// system call that the stop ended with EINTR is made again, unless a signal is about to arrive that it should
// report. On one stack and in one thread, as TracedThread.
#pragma once

#include <sys/types.h>

#include <utility>

#include "arch/registers.h"
#include "base/clock.h"
#include "base/result.h"
#include "process/traced_thread.h"

namespace probing::process {

// Makes a system call again that reported EINTR for a mere stop (epoll_wait and others), unless a signal is
// about to arrive that it should report. REQUIRES: the thread is stopped; `registers` are those it has.
Result<void> RepairInterruptedCall(const TracedThread& thread, arch::Registers registers);

class HeldThread {
 public:
  // Also holds a thread that job control has stopped. kTimeout: it cannot be stopped (D state). kPermission:
  // another program traces it, or this one may not. kNotFound: it has ended.
  static Result<HeldThread> Hold(pid_t tid, const Deadline& deadline);

  HeldThread(HeldThread&& other) noexcept
      : thread_(std::move(other.thread_)), holds_(std::exchange(other.holds_, false)) {}
  HeldThread& operator=(HeldThread&&) = delete;
  ~HeldThread();

 private:
  explicit HeldThread(TracedThread thread) : thread_(std::move(thread)) {}
  TracedThread thread_;
  bool holds_ = true;  // false after a move
};

}  // namespace probing::process
