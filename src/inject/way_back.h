// The way back of a borrowed thread: a signal frame on its own stack (arch/signal_frame.h).
//
// A function that we make the thread call returns to the C library's signal trampoline, which
// asks the kernel (rt_sigreturn) to restore everything from this frame: general and vector
// registers, flags, signal mask. So the thread needs no injector when the call ends: it may be
// dead by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arch/registers.h"
#include "arch/signal_frame.h"
#include "process/memory.h"

namespace probing::inject {

// What a thread must have back. `registers` are as it should continue, which for a thread in a
// system call is not as it was found (see safe_point.h).
struct SavedState {
  arch::Registers registers;
  arch::VectorState vectors;
  std::uint64_t signal_mask = 0;
};

class WayBack {
 public:
  WayBack(const SavedState& state, process::RemoteAddress trampoline, std::size_t data_bytes);

  // Reserves room among the data and fills it. REQUIRES: the sum fits `data_bytes`, 16 per item.
  process::RemoteAddress Add(std::span<const std::byte> data);

  // What the stack pointer must be at the first instruction of the called function.
  std::uint64_t stack_pointer() const { return frame_.start; }

  // To be written at stack_pointer().
  std::span<const std::byte> bytes() const { return frame_.bytes; }

 private:
  arch::SignalFrame frame_;
  std::uint64_t next_data_;
};

}  // namespace probing::inject
