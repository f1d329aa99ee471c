// Children of a process, and theirs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace probing::observe {

// Without the process itself, ascending. Processes come and go: any of them may be gone already.
std::vector<pid_t> FindDescendants(pid_t pid, const std::string& proc_root = "/proc");

}  // namespace probing::observe
