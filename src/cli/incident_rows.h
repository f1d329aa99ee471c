// Stacks and samples out of files (`-t FILE`), in the form that live ones have, so that the same code shows
// them.
#pragma once

#include <string>
#include <vector>

#include "backtrace/recorded.h"
#include "base/result.h"
#include "cli/command.h"
#include "flame/profile.h"

namespace probing::cli {

// Where every thread of every process was. Only Python frames; `options` says which threads.
Result<std::vector<backtrace::RecordedProcess>> RecordedStacks(const std::string& file,
                                                               const backtrace::Options& options);

// python.samples of the file; empty when it has none.
Result<flame::Profile> RecordedSamples(const std::string& file);

}  // namespace probing::cli
