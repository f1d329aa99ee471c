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
#include <optional>
#include <span>
#include <vector>

#include "arch/registers.h"

namespace probing::arch {

// One set of registers beyond the general ones, as ptrace gives it.
struct VectorPart {
  int note;
  std::vector<std::byte> bytes;
};
using VectorState = std::vector<VectorPart>;

struct SignalFrame {
  std::uint64_t start = 0;       // the stack pointer at the called function's first instruction
  std::uint64_t data = 0;        // where `data_bytes` are free
  std::vector<std::byte> bytes;  // to be written at `start`
};

// Why no frame could restore this state, or no function may be called in it, to follow "a thread": "" when
// none of that is the case.
const char* WhyNoFrame(const VectorState& vector_state);

// A function entered at `start` returns to `trampoline`, and the thread goes on with `registers`,
// `vector_state` and `signal_mask`. REQUIRES: WhyNoFrame() says nothing.
SignalFrame MakeSignalFrame(const Registers& registers, const VectorState& vector_state,
                            std::uint64_t signal_mask, std::uint64_t trampoline, std::size_t data_bytes);

// Of a thread that stands at the signal trampoline with `frame` at its stack pointer: the registers that were
// interrupted, in the order of DWARF's numbers. Nothing where unwind tables say it.
inline constexpr std::size_t kFrameWordsAtTrampoline = kFrameSkipsWords + FrameWords::kWords;
std::optional<std::array<std::uint64_t, dwarf::kRegisterCount>> InterruptedRegisters(
    std::span<const std::uint64_t> frame);

}  // namespace probing::arch
