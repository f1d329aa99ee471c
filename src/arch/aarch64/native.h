// AArch64 (arm64), as arch/native.h hands it out.
#pragma once

#include <elf.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

// Newer than the headers of the glibc that we build with.
#ifndef NT_ARM_SYSTEM_CALL
#define NT_ARM_SYSTEM_CALL 0x404
#endif
#ifndef NT_ARM_SVE
#define NT_ARM_SVE 0x405
#endif
#ifndef NT_ARM_SSVE
#define NT_ARM_SSVE 0x40b
#define NT_ARM_ZA 0x40c
#endif
#ifndef NT_ARM_GCS
#define NT_ARM_GCS 0x410
#endif

namespace probing::arch {

inline constexpr const char* kName = "arm64";
inline constexpr std::uint16_t kElfMachine = EM_AARCH64;
// What the signal frame restores beside the general registers, as ptrace names it; the first is always there.
// The last three are only looked at: WhyNoFrame().
inline constexpr std::array kVectorStateNotes = {NT_PRFPREG, NT_ARM_SVE, NT_ARM_SSVE, NT_ARM_ZA, NT_ARM_GCS};
inline constexpr std::size_t kMaxVectorStateBytes = 16 * 1024;  // SVE of 2048 bits needs 9 KiB

// The largest page that a kernel for this processor may use.
inline constexpr std::uint64_t kMaxPageBytes = 65536;
inline constexpr std::uint64_t kUnmappedByStub = 0x20000;  // loader_stub.S

// Nothing below the stack pointer belongs to anybody.
inline constexpr std::uint64_t kRedZoneBytes = 0;

// How far the stack pointer is above its place at a function's first instruction once the function has
// returned.
inline constexpr std::uint64_t kReturnPopsBytes = 0;

// Where the C library's descriptor of a thread may begin, seen from its thread pointer, and how far beyond
// the thread pointer the block goes that the thread's stack is part of: thread-local storage lies above it.
inline constexpr std::uint64_t kDescriptorBelow = 2304;
inline constexpr std::uint64_t kMaximumAboveDescriptor = 64 * 1024;

// True where a stop sets a thread back to before the call that it interrupts, and forgets that there was one
// (do_signal() of arch/arm64/kernel/signal.c does so before it tells a tracer).
inline constexpr bool kStopHidesCall = true;

// The system call instruction (svc #0), and the code behind which the kernel restores a thread (mov x8,#139;
// svc #0), which is the kernel's own: its vdso has it.
inline constexpr std::string_view kSyscallInstruction("\x01\x00\x00\xd4", 4);
inline constexpr bool kTrampolineIsInVdso = true;
inline constexpr std::string_view kSignalTrampoline("\x68\x11\x80\xd2\x01\x00\x00\xd4", 8);

inline constexpr std::size_t kLongestCallBytes = 4;  // of a call instruction

// System calls that not every processor has; where one is missing, a number below −1 that no thread is in.
inline constexpr std::int64_t kPoll = -100;
inline constexpr std::int64_t kSelect = -101;
inline constexpr std::int64_t kPause = -102;
inline constexpr std::int64_t kEpollWait = -103;
inline constexpr std::int64_t kOpen = -104;

// The numbers that DWARF gives to registers.
namespace dwarf {
inline constexpr std::size_t kFramePointer = 29;
inline constexpr std::size_t kReturnColumn = 30;  // of unwind tables: the link register
inline constexpr std::size_t kStackPointer = 31;
inline constexpr std::size_t kReturnAddress = 32;  // of ours: DWARF has no number for the instruction pointer
inline constexpr std::size_t kRegisterCount = 33;

// x19 to x28, and the frame pointer; and the link register, of a function that calls no other.
constexpr bool IsCalleeSaved(std::size_t number) { return number >= 19 && number <= 30; }
}  // namespace dwarf

// A call leaves the return address in a register, where it stays in a function that calls no other; a frame
// pointer points to two words somewhere in its frame.
inline constexpr bool kCallsKeepStackPointer = true;
inline constexpr bool kFramePointerTellsStackPointer = false;

// The address of code without what a processor may have hidden in it: the signature of a return address
// (xpaclri, which does nothing on processors without).
inline std::uint64_t StripCode(std::uint64_t address) {
  register std::uint64_t link asm("x30") = address;
  asm("hint #7" : "+r"(link));
  return link;
}

// General registers as the kernel has them, and what it keeps apart from them.
struct NativeRegisters {
  user_regs_struct general;
  std::int32_t kernel_call = -1;  // NT_ARM_SYSTEM_CALL
  std::uint64_t thread_pointer = 0;
  // Of the call that the thread is in: the kernel has forgotten it by the time of most stops.
  std::int64_t call = -1;
  std::uint64_t first_argument = 0;  // its register has the result
};
inline constexpr std::size_t kRegisterParts = 3;  // sets of registers by ptrace

// A counter that goes on at one speed on all cores; which speed is not said.
inline std::int64_t ReadTicks() {
  std::int64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}

// Words between the stack pointer at the trampoline and FrameWords: siginfo.
inline constexpr std::size_t kFrameSkipsWords = 16;

// The kernel's signal frame, in words from its uc_flags on (struct ucontext) to the first record of floating
// point state.
class FrameWords {
 public:
  static constexpr std::size_t kWords = 59;
  static constexpr std::size_t kRegistersAt = 23;  // x0 to x30, sp, pc, pstate

  // REQUIRES: kWords words.
  explicit FrameWords(std::span<const std::uint64_t> words) : words_(words) {}

  // True for what the kernel writes into every frame and a handler has no reason to change.
  bool IsFrame(std::uint64_t /*address*/) const {
    constexpr std::uint64_t kFirstRecord = 0x0000021046508001;  // FPSIMD_MAGIC and its size
    constexpr std::uint64_t kModeBits = 0x1f;                   // 0: a program's, 64-bit
    const std::uint64_t flags = words_[0], link = words_[1], pstate = words_[56];
    return flags == 0 && link == 0 && (pstate & kModeBits) == 0 && words_[58] == kFirstRecord;
  }

  std::uint64_t alternate_start() const { return words_[2]; }
  std::uint64_t alternate_bytes() const { return words_[4]; }
  // Of the code that the signal interrupted.
  std::uint64_t stack_pointer() const { return words_[54]; }
  std::uint64_t instruction_pointer() const { return words_[55]; }

 private:
  std::span<const std::uint64_t> words_;
};

}  // namespace probing::arch
