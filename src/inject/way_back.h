// The way back of a borrowed thread: a signal frame on its own stack.
//
// A function that we make the thread call returns to the C library's signal trampoline, which
// asks the kernel (rt_sigreturn) to restore everything from this frame: general and vector
// registers, flags, signal mask. So nobody has to be there when the call ends, and the injector
// may be dead by then.
//
//   stack pointer of the thread ─▶ ┌────────────────┐ high addresses
//                                  │ red zone, 128  │  belongs to the interrupted function
//                                  │ vector state   │  XSAVE area + the kernel's end mark
//                                  │ data           │  what the call needs: Add()
//                                  │ signal frame   │
//          stack_pointer() ─▶      │ return address │  the trampoline
//                                  └────────────────┘ the callee's stack grows from here
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "process/memory.h"

namespace probing::inject {

// What a thread must have back. `registers` are as it should continue, which for a thread in a
// system call is not as it was found (see safe_point.h).
struct SavedState {
  user_regs_struct registers{};
  std::vector<std::byte> extended;  // XSAVE area as ptrace gives it
  std::uint64_t signal_mask = 0;
};

class WayBack {
 public:
  WayBack(const SavedState& state, process::RemoteAddress trampoline, std::size_t data_bytes);

  // Reserves room among the data and fills it. REQUIRES: the sum fits `data_bytes`, 16 per item.
  process::RemoteAddress Add(std::span<const std::byte> data);

  // What the stack pointer must be at the first instruction of the called function.
  std::uint64_t stack_pointer() const { return base_; }

  // To be written at stack_pointer().
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  template <typename T>
  void Put(std::uint64_t address, const T& value);

  std::uint64_t base_;
  std::uint64_t next_data_;
  std::vector<std::byte> bytes_;
};

}  // namespace probing::inject
