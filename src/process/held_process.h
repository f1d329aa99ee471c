// A process whose threads all stand still, so that what is read is of one instant.
//
// Leaving the scope lets all of them go. If this process dies instead, the kernel does. No thread
// notices: a system call that the stop has ended with EINTR is made again, unless there is a signal
// for it. Such a call waits for its whole time-out again.
//
// On one stack and in one thread, as TracedThread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "process/traced_thread.h"

namespace probing::process {

class HeldProcess {
 public:
  // A process that job control has stopped (SIGSTOP) stands still already: nothing is done to it.
  // kTimeout when a thread does not stop in time; nothing is held then.
  static Result<HeldProcess> Hold(pid_t pid, const Deadline& deadline);

  HeldProcess(HeldProcess&&) noexcept = default;
  HeldProcess& operator=(HeldProcess&&) = delete;
  ~HeldProcess() { Release(); }

  // Lets all threads go. Says for how long the first one was held: 0 when none was.
  std::int64_t Release();

  std::size_t thread_count() const { return threads_.size(); }

 private:
  HeldProcess() = default;

  // Holds the threads that are not held yet; returns how many those were.
  Result<std::size_t> HoldNewThreads(pid_t pid, const Deadline& deadline);
  Result<void> HoldThread(pid_t pid, pid_t tid, const Deadline& deadline);

  std::vector<TracedThread> threads_;
  std::int64_t since_ns_ = 0;
};

}  // namespace probing::process
