// Processes of other pid namespaces, containers, that have a number there.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace probing::process {

// Their pids as seen from here, ascending. Reads all of /proc.
std::vector<pid_t> NamesakesElsewhere(pid_t own_pid, const std::string& proc_root = "/proc");

}  // namespace probing::process
