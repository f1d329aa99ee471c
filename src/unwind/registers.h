// The registers of one frame, numbered as DWARF does on this processor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arch/native.h"

namespace probing::unwind {

using arch::dwarf::kFramePointer;
using arch::dwarf::kRegisterCount;
using arch::dwarf::kReturnAddress;  // the instruction pointer
using arch::dwarf::kReturnColumn;   // where unwind tables say the caller's is
using arch::dwarf::kStackPointer;

// A register whose value nobody knows stays unknown: guessing would show a wrong stack.
class Registers {
 public:
  bool Has(std::size_t number) const { return number < kRegisterCount && (known_ >> number & 1U) != 0; }
  // REQUIRES: Has(number).
  std::uint64_t Get(std::size_t number) const { return values_[number]; }
  // REQUIRES: number < kRegisterCount.
  void Set(std::size_t number, std::uint64_t value) {
    values_[number] = value;
    known_ |= std::uint64_t{1} << number;
  }
  void Forget(std::size_t number) { known_ &= ~(std::uint64_t{1} << number); }

 private:
  std::array<std::uint64_t, kRegisterCount> values_{};
  std::uint64_t known_ = 0;
};

}  // namespace probing::unwind
