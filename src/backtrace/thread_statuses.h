// What the kernel says about the threads of a process.
//
//   ThreadStatuses statuses(pid, details);
//   statuses.ReadAside();   // many threads: on a thread of its own, since it takes as long as their stacks
//   …                       // read the stacks
//   statuses.Finish();
//   statuses.Get(tid);
#pragma once

#include <pthread.h>

#include <optional>
#include <unordered_map>

#include "process/thread_status.h"

namespace probing::backtrace {

// Not thread-safe. Not to be moved: its thread knows where it is.
class ThreadStatuses {
 public:
  using Details = process::ThreadStatusReader::Details;

  ThreadStatuses(pid_t pid, Details details) : pid_(pid), reader_(pid, details) {}
  ~ThreadStatuses() { Finish(); }
  ThreadStatuses(const ThreadStatuses&) = delete;
  ThreadStatuses& operator=(const ThreadStatuses&) = delete;

  // At most once. Nothing happens where there are few threads, or no thread can be started.
  void ReadAside();
  void Finish();
  // As it was read aside, or as it is now. REQUIRES: Finish() after ReadAside(). kNotFound: gone.
  Result<process::ThreadStatus> Get(pid_t tid) const;

 private:
  void ReadAll();

  pid_t pid_;
  process::ThreadStatusReader reader_;
  std::unordered_map<pid_t, process::ThreadStatus> known_;  // its thread's, until that is joined
  std::optional<pthread_t> thread_;
};

}  // namespace probing::backtrace
