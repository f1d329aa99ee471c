// probing memory --gpu: what torch's GPU allocator has, and who allocated it.
#pragma once

#include "base/result.h"
#include "cli/command.h"

namespace probing::cli {

// Takes a snapshot of a process, or reads one from a file; prints it. Options: --duration, --output, --top,
// --json.
Result<int> ShowGpuMemory(const Invocation& invocation);

}  // namespace probing::cli
