// DWARF expressions, as unwind tables have them: PLT entries, signal frames, hand-written assembly.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "process/memory.h"
#include "unwind/registers.h"

namespace probing::unwind {

// Bounded in steps and in stack. `initial` is on the stack at the start: the CFA, for all
// expressions but the CFA's own.
Result<std::uint64_t> Evaluate(std::span<const std::byte> expression, const Registers& registers,
                               const process::Memory& memory, std::optional<std::uint64_t> initial);

}  // namespace probing::unwind
