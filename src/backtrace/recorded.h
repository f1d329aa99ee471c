// Pictures of processes that are known by rows only: python.stacks of an incident file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backtrace/backtrace.h"

namespace probing::backtrace {

struct RecordedProcess {
  std::string title;  // "Process 4711, rank 1 of job night-run on node3"
  Picture picture;
};

// What to ask for; with options.locals also the variables.
std::string RecordedSql(const Options& options);

// Of the rows that answer it, which may be anything. `options` says which threads; only Python frames are
// there.
std::vector<RecordedProcess> PicturesOf(const nlohmann::ordered_json& rows, const Options& options);

}  // namespace probing::backtrace
