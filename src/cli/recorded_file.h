// Files that probingd holds open for us: the trace of a profile, the snapshot of a GPU's memory.
#pragma once

#include <string>

#include "base/result.h"

namespace probing::cli {

// REQUIRES: probingd is on this machine. Says the new file's name on stderr.
Result<void> CopyRecordedFile(const std::string& from, const std::string& to);

}  // namespace probing::cli
