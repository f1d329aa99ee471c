// Is a file fit to be loaded into somebody's process? The loader trusts what it maps: a truncated
// or garbled library kills the process that loads it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::inject {

// A complete shared library for this processor: its header and every segment lie within the file.
Result<void> CheckLibrary(const std::string& path, std::string_view content);

// Loads it in a short-lived child process. An error if the child does not survive that; a library
// that merely cannot be loaded here may still fit the target.
Result<void> Rehearse(const std::string& path);

}  // namespace probing::inject
