// What a function's first instructions have done to the stack, told from their bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "arch/native.h"

namespace probing::arch {

struct Prologue {
  // Where the caller's stack pointer is: this register (DWARF's number) plus this many bytes.
  std::size_t caller_register = dwarf::kStackPointer;
  std::int32_t caller_offset = 0;
  // Where each register was stored, relative to the caller's stack pointer; 0: nowhere.
  std::array<std::int32_t, dwarf::kRegisterCount> saved_at{};
};

// `code` is the function from its start. Reads up to the first instruction that no prologue has. Nothing when
// the stack is realigned, or otherwise moved by something that is not known.
std::optional<Prologue> ReadPrologue(std::span<const std::byte> code);

// True when these bytes end with a call instruction.
bool EndsWithCall(std::span<const std::byte, kLongestCallBytes> code);

}  // namespace probing::arch
