// From what Python knows of a thread to the kernel's id of it.
#pragma once

#include <sys/types.h>

#include <unordered_map>
#include <vector>

#include "cpython/states.h"
#include "process/memory.h"

namespace probing::cpython {

// The target's threads: own id → id as seen from here. They differ in containers.
using ThreadNumbers = std::unordered_map<pid_t, pid_t>;
Result<ThreadNumbers> ReadThreadNumbers(pid_t pid);

// The id (as seen from here) of every thread, 0 where it cannot be found out. Where the native id
// is missing or stale, the C library's record is looked at: it holds the id at a place which
// depends on the library, found as the one where all records have different, living ids.
std::vector<pid_t> FindThreadIds(const process::Memory& memory, const std::vector<ThreadState>& threads,
                                 const ThreadNumbers& numbers);

}  // namespace probing::cpython
