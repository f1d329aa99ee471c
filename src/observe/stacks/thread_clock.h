// ThreadClock: has a thread run since the last look, and is it on a CPU now?
//
// The kernel counts how often it put a thread on a CPU (/proc/PID/task/TID/schedstat, a fast file).
// A thread that slept at the last look and has the same count has not executed a single
// instruction since: whatever was read of it then still holds. Only for others the slower file with
// the state is read. Both stay open; they mean this thread even if its id is used again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::observe {

class ThreadClock {
 public:
  // kNotFound: there is no such thread.
  static Result<ThreadClock> Open(pid_t pid, pid_t tid, const std::string& proc_root = "/proc");

  struct Look {
    bool on_cpu = false;  // running, or waiting for a CPU
    bool has_run = true;  // since the last look; true when nobody knows
    // Since it began, as of this look; 0 where the kernel does not count.
    std::uint64_t times_run = 0;
    std::int64_t waited_ns = 0;  // for a CPU, while it could have run
  };
  // Look first, then read the thread's memory: what runs in between is seen by the next look.
  // kNotFound: the thread has ended.
  Result<Look> LookNow();

 private:
  explicit ThreadClock(ScopedFd schedstat, ScopedFd stat)
      : schedstat_(std::move(schedstat)), stat_(std::move(stat)) {}

  ScopedFd schedstat_;  // not valid on kernels without it
  ScopedFd stat_;
  std::uint64_t times_run_ = 0;
  bool slept_ = false;  // at the last look
};

}  // namespace probing::observe
