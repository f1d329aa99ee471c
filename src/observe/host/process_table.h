// system.process: a target and its descendants as they are now.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "table/rows.h"

namespace probing::observe {

// When a process was started, in wall time, from the ticks that /proc/PID/stat has.
std::int64_t StartedWallNs(std::uint64_t start_ticks);

// One row for each process; only files that the columns (indexes into the declared ones) need are read.
// A process that has ended has no row; what we may not see of others is NULL.
table::Rows ReadProcesses(pid_t pid, const std::vector<std::size_t>& columns,
                          const std::string& proc_root = "/proc");

// Thread-safe.
std::unique_ptr<table::Source> MakeProcessSource(const std::string& proc_root = "/proc");

}  // namespace probing::observe
