// From the position in a code object's bytecode to the line in its source file.
//
// All functions take untrusted bytes and end after at most one pass over them. `position` is in
// bytes from the start of the bytecode; one before the start means that nothing ran yet. The
// answer 0 stands for "no line": the compiler made the instruction up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cpython/offsets.h"

namespace probing::cpython {

int FindLine(LineTableFormat format, std::span<const std::uint8_t> table, int first_line,
             std::int64_t position);

}  // namespace probing::cpython
