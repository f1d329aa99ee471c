// Source files of a process, as that process sees them: for those who show where it is.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::process {

// The text of a Python or Cython file. The process chose the name, and may have put anything there: what is
// no regular file of at most 4 MB does not hold up, and what the process could not read itself is not shown.
// kNotFound: not the name of such a file.
Result<std::string> ReadSourceFile(pid_t pid, const std::string& file);

// Any regular file of at most so many bytes that begins with `start`, under the same conditions.
Result<std::string> ReadFileOf(pid_t pid, const std::string& file, off_t max_bytes, std::string_view start);

}  // namespace probing::process
