// SharedCpu: looks at a thread from the CPU it runs on, so that it does not run meanwhile.
//
// Two threads cannot use one CPU at once. As long as this thread is on the CPU where another one ran
// last, the other waits for its turn, as it does for any other program: nothing is stopped, traced
// or signalled, and it may be moved to a free CPU at any time. Whether it was is told afterwards, so
// what was read meanwhile is either of one instant or known not to be.
//
//   SharedCpu shared(pid, tid);
//   if (shared.Enter()) { …read…; if (shared.StoodStill()) …it was of one instant…; }
//   shared.Leave();
//
// Stay for some ten microseconds only: the other thread waits. Not thread-safe.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/scoped_fd.h"

namespace probing::process {

class SharedCpu {
 public:
  SharedCpu(pid_t pid, pid_t tid, const std::string& proc_root = "/proc");
  ~SharedCpu() { Leave(); }
  SharedCpu(const SharedCpu&) = delete;
  SharedCpu& operator=(const SharedCpu&) = delete;

  // Goes to the thread's CPU. False: it went elsewhere meanwhile (try again), or CanEver() is false.
  bool Enter();

  // Whether the thread has not executed a single instruction since Enter().
  // REQUIRES: Enter() said true and Leave() was not called since.
  bool StoodStill() const;

  // Back to the CPUs this thread may use otherwise. Also done at the end.
  void Leave();

  // False: that CPU is not ours to use (a cpuset), the thread has real-time priority, which we
  // would have to wait for, or it is gone.
  bool CanEver() const { return can_ever_; }

 private:
  // What the kernel says about the thread, and about this one.
  struct Look {
    int cpu = -1;
    bool is_fair = false;         // has no real-time policy
    std::uint64_t times_run = 0;  // how often it was put on a CPU; 0 where the kernel does not count
    std::int64_t own_switches = 0;
  };
  std::optional<Look> LookNow() const;

  ScopedFd stat_;
  ScopedFd schedstat_;
  cpu_set_t before_{};
  Look entered_;
  bool is_elsewhere_ = false;  // this thread has other CPUs than before
  bool can_ever_ = true;
};

}  // namespace probing::process
