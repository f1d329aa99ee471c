// pidfds: a process that cannot be mistaken for another with the same number.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/scoped_fd.h"

namespace probing::observe {

// Not valid on kernels before 5.3, or when there is no such process.
ScopedFd OpenPidfd(pid_t pid);

// The status as wait(2) has it, after the process was waited for by its parent. nullopt before that, and
// on kernels before 6.15. The pidfd must be older than the end of the process.
std::optional<int> ReadExitStatus(const ScopedFd& pidfd);

}  // namespace probing::observe
