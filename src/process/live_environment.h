// The environment of a process as it is now.
//
// /proc/PID/environ is what the process was started with. What it puts into os.environ later (Ray Train and
// programs of torch.multiprocessing.spawn set RANK so) is in the list that libc's `environ` points to, which
// is read here from outside. The process may change the list meanwhile: what cannot be read is left out.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "process/maps.h"

namespace probing::process {

// As /proc has it: NAME=value, each ended by a zero byte.
Result<std::string> LiveEnvironment(const Memory& memory, const Maps& maps);

}  // namespace probing::process
