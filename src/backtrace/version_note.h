// What to say about a Python that is newer than this program. Internal to src/backtrace.
#pragma once

#include <string>

#include "cpython/version.h"

namespace probing::backtrace {

// A line for Picture::remarks; nothing about a version that is known.
std::string AboutVersion(const cpython::Version& version);

}  // namespace probing::backtrace
