// The Python processes of this host, found in /proc.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace probing::cli {

// The one process that runs this script ("train.py", or a path that its command line ends with): no launcher
// that only names it, and no child of it with the same command line, as workers of a DataLoader have.
// kNotFound without one, kUsage with the pids where there are several.
Result<pid_t> FindScript(const std::string& script);

}  // namespace probing::cli
