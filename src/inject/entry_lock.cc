#include "inject/entry_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <string>

#include "process/status.h"

namespace probing::inject {

Result<EntryLock> EntryLock::Acquire(pid_t pid, const Deadline& deadline) {
  RETURN_IF_ERROR(process::ReadStatus(pid));  // says it best when there is no such process
  ScopedFd directory(open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return ErrnoError("look at process " + std::to_string(pid));
  while (flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return ErrnoError("lock process " + std::to_string(pid));
    if (deadline.passed()) {
      return Error{Code::kTimeout, "another command is entering process " + std::to_string(pid), "try again"};
    }
    SleepUs(500);
  }
  return EntryLock(std::move(directory));
}

}  // namespace probing::inject
