// Code that only tests run.
#pragma once

#include "arch/native.h"

namespace probing::arch {

#if defined(__x86_64__)
// push %rax; jmp .
inline constexpr std::string_view kPushAndSpin("\x50\xeb\xfe", 3);

inline void CallWithoutFramePointer(void* code) {
  asm volatile("xor %%ebp, %%ebp; xor %%eax, %%eax; call *%0" ::"D"(code));
}

// A signal frame as the kernel writes it.
struct FrameOfSignal {
  std::uint64_t flags = 7;
  std::uint64_t alternate_start = 0, alternate_bytes = 0;
  std::uint64_t stack_pointer = 0, instruction_pointer = 0;  // of what was interrupted
  std::uint64_t vector_state = 0;
};

// REQUIRES: FrameWords::kWords words, all 0.
inline void WriteFrame(const FrameOfSignal& frame, std::span<std::uint64_t> words) {
  words[0] = frame.flags;
  words[2] = frame.alternate_start, words[4] = frame.alternate_bytes;
  words[20] = frame.stack_pointer;
  words[21] = frame.instruction_pointer;
  words[22] = 0x246;               // eflags
  words[23] = 0x002b000000000033;  // ss, cs
  words[28] = frame.vector_state;
}
#elif defined(__aarch64__)
// mov x30, #8; b .
inline constexpr std::string_view kPushAndSpin("\x1e\x01\x80\xd2\x00\x00\x00\x14", 8);

inline void CallWithoutFramePointer(void* code) {
  __builtin___clear_cache(static_cast<char*>(code), static_cast<char*>(code) + kPushAndSpin.size());
  asm volatile("mov x29, xzr; blr %0" ::"r"(code) : "x30");
}

// A signal frame as the kernel writes it.
struct FrameOfSignal {
  std::uint64_t flags = 0;
  std::uint64_t alternate_start = 0, alternate_bytes = 0;
  std::uint64_t stack_pointer = 0, instruction_pointer = 0;  // of what was interrupted
  std::uint64_t vector_state = 0;
};

// REQUIRES: FrameWords::kWords words, all 0.
inline void WriteFrame(const FrameOfSignal& frame, std::span<std::uint64_t> words) {
  words[0] = frame.flags;
  words[2] = frame.alternate_start, words[4] = frame.alternate_bytes;
  words[54] = frame.stack_pointer;
  words[55] = frame.instruction_pointer;
  words[56] = 0x60001000;          // pstate
  words[58] = 0x0000021046508001;  // the record of floating point state
}
#endif

}  // namespace probing::arch
