// The frame on a stack from which the kernel restores a thread when code returns to the C library's signal
// trampoline.
//
//   stack pointer of the thread ─▶ ┌────────────────┐ high addresses
//                                  │ red zone       │  belongs to the interrupted function
//                                  │ vector state   │
//                                  │ data           │  what a called function needs
//                                  │ signal frame   │
//                       start ─▶   └────────────────┘ the callee's stack grows from here
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/registers.h"

namespace probing::arch {

struct SignalFrame {
  std::uint64_t start = 0;       // the stack pointer at the called function's first instruction
  std::uint64_t data = 0;        // where `data_bytes` are free
  std::vector<std::byte> bytes;  // to be written at `start`
};

// A function entered at `start` returns to `trampoline`, and the thread goes on with `registers`,
// `vector_state` (as ptrace gives it) and `signal_mask`.
SignalFrame MakeSignalFrame(const Registers& registers, std::span<const std::byte> vector_state,
                            std::uint64_t signal_mask, std::uint64_t trampoline, std::size_t data_bytes);

}  // namespace probing::arch
