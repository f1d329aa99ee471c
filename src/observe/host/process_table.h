// system.process: a target and its descendants as they are now.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "table/rows.h"

namespace probing::observe {

// One row for each process; only files that the columns (indexes into the declared ones) need are read.
// A process that has ended has no row; what we may not see of others is NULL.
table::Rows ReadProcesses(pid_t pid, const std::vector<std::size_t>& columns,
                          const std::string& proc_root = "/proc");

// Thread-safe.
std::unique_ptr<table::Source> MakeProcessSource(const std::string& proc_root = "/proc");

}  // namespace probing::observe
