// Directories of this user's own that one process at a time writes into.
#pragma once

#include <string>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::history {

// All of "a/b/c" below `directory`.
Result<void> MakeFolders(const std::string& directory, const std::string& folder);

// Held for as long as the descriptor is open. An error that names `directory` while another process has it.
Result<ScopedFd> LockFile(const std::string& path, const std::string& directory);

}  // namespace probing::history
