// The variables of a mapped object: its writable parts, copied.
#pragma once

#include <vector>

#include "process/maps.h"
#include "process/memory.h"

namespace probing::cpython {

struct DataRange {
  process::RemoteAddress start;
  std::vector<std::uint64_t> words;
};

// Includes the anonymous part behind the file's, which holds the variables that start as zero.
// What cannot be read, or is absurdly big, is left out.
std::vector<DataRange> ReadObjectData(const process::Memory& memory, const process::Maps& maps,
                                      const process::Maps::Object& object);

}  // namespace probing::cpython
