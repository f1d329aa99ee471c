// A process whose threads all stand still, so that what is read is of one instant.
//
// Threads that run are held by ptrace, and so are those in waits that survive a stop exactly
// (process/blocked_call.h). One that sleeps in another wait, of which a stop would begin the time-out anew,
// is left asleep: StoodStill() tells afterwards whether it has run meanwhile. Then the reading is to be done
// again, with the same Sleepers: what has just run has waited for no time worth mentioning and is held.
//
// Leaving the scope lets all of them go. If this process dies instead, the kernel does. No thread
// notices: a system call that the stop has ended with EINTR is made again, unless there is a signal
// for it.
//
// On one stack and in one thread, as TracedThread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "process/traced_thread.h"

namespace probing::process {

// What was seen of sleeping threads, from one try to the next.
class Sleepers {
 public:
  // Whether a sleeping thread with this count has run since it was first seen, not long ago.
  bool HasRunLately(pid_t tid, std::uint64_t times_run);

 private:
  struct Seen {
    std::uint64_t times_run = 0;
    std::int64_t at_ns = 0;
  };
  std::unordered_map<pid_t, Seen> seen_;
};

class HeldProcess {
 public:
  // A process that job control has stopped (SIGSTOP) stands still already: nothing is done to it.
  // kTimeout when a thread does not stop in time; nothing is held then.
  static Result<HeldProcess> Hold(pid_t pid, Sleepers& sleepers, const Deadline& deadline);

  HeldProcess(HeldProcess&&) noexcept = default;
  HeldProcess& operator=(HeldProcess&&) = delete;
  ~HeldProcess() { Release(); }

  // Lets all threads go. Says for how long the first one was held: 0 when none was.
  std::int64_t Release();

  // Whether no thread that was left asleep has run since Hold().
  bool StoodStill() const;

  std::size_t thread_count() const { return threads_.size(); }  // held
  std::size_t asleep_count() const { return asleep_.size(); }   // left asleep

 private:
  explicit HeldProcess(pid_t pid) : pid_(pid) {}

  // Holds the threads that are not held yet; returns how many those were.
  Result<std::size_t> HoldNewThreads(Sleepers& sleepers, const Deadline& deadline);
  Result<void> HoldThread(pid_t tid, const Deadline& deadline);
  bool LeaveAsleep(pid_t tid, Sleepers& sleepers);

  pid_t pid_;
  std::vector<TracedThread> threads_;
  std::unordered_map<pid_t, std::uint64_t> asleep_;  // with how often each had run
  std::int64_t since_ns_ = 0;
};

}  // namespace probing::process
