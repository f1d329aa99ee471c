// The process that runs DuckDB: `probingd --query-worker`, started by client.h.
//
// It is a process of its own because a value of a gigabyte, a crash or a query that cannot be
// interrupted then costs this process, and because the engine's memory goes back when it ends.
#pragma once

#include <memory>
#include <vector>

#include "table/source.h"

namespace probing::query {

inline constexpr int kWorkerSocket = 3;

// Serves queries from descriptor 3 until the other side closes it, then ends the process: it does
// not return.
// `sources` produce the live tables that are read from outside; all others that are live are asked
// for through the connection. REQUIRES: a fresh process, with nothing in it that it could lose.
int RunWorker(std::vector<std::shared_ptr<table::Source>> sources);

}  // namespace probing::query
