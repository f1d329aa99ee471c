// The stacks of a process that is no more, from what is left of it: a core file.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "cpython/interpreter.h"
#include "process/maps.h"
#include "process/memory.h"

namespace probing::cpython {

// As Interpreter::Read(), but nothing moves and there is no /proc: threads have no names, and their
// ids are found among `tids`, all threads that there were. The main thread, `pid`, comes first.
Result<Snapshot> ReadDead(std::unique_ptr<const process::Memory> memory, const process::Maps& maps, pid_t pid,
                          const std::vector<pid_t>& tids, ReadOptions options = {});

}  // namespace probing::cpython
