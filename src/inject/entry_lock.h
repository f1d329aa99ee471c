// EntryLock: while one exists, no other command enters the same process.
//
// The lock is on the process's own directory in /proc: it leaves nothing behind, ends with its
// holder, and means this very process, not its pid.
#pragma once

#include <sys/types.h>

#include "base/clock.h"
#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::inject {

class EntryLock {
 public:
  // Waits for others. kNotFound: no such process.
  static Result<EntryLock> Acquire(pid_t pid, const Deadline& deadline);

 private:
  explicit EntryLock(ScopedFd directory) : directory_(std::move(directory)) {}

  ScopedFd directory_;
};

}  // namespace probing::inject
