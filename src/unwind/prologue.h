// Unwinding by what a function does first, where no table describes it.
//
// Every PyTorch for CPUs contains MKL: 25,000 functions, the hottest of all among them, without
// unwind tables and mostly without frame pointers. Their prologues are plain: pushes, one
// subtraction, stores of registers. What comes of it is a guess and has to be checked: the place
// it leads to must follow a call (IsAfterCall).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "process/memory.h"
#include "unwind/cfi.h"

namespace probing::unwind {

inline constexpr std::size_t kMaxPrologueBytes = 96;

// `code` is the function from its start to the instruction in question, or kMaxPrologueBytes of
// it. Reads up to the first instruction that no prologue has. kFailed: the stack is realigned, or
// otherwise moved by something that is not known.
Result<Row> RowFromPrologue(std::span<const std::byte> code);

// True when the instruction before `address` is a call.
bool IsAfterCall(const process::Memory& memory, std::uint64_t address);

}  // namespace probing::unwind
