// x86-64, as arch/native.h hands it out.
#pragma once

#include <elf.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace probing::arch {

inline constexpr const char* kName = "x86-64";
inline constexpr std::uint16_t kElfMachine = EM_X86_64;
// What the signal frame restores beside the general registers, as ptrace names it; the first is always there.
inline constexpr std::array kVectorStateNotes = {NT_X86_XSTATE};
inline constexpr std::size_t kMaxVectorStateBytes = 16 * 1024;  // AMX needs 11 KiB

// The largest page that a kernel for this processor may use.
inline constexpr std::uint64_t kMaxPageBytes = 4096;
inline constexpr std::uint64_t kUnmappedByStub = 8192;  // loader_stub.S

// Below the stack pointer, used by functions that call no other.
inline constexpr std::uint64_t kRedZoneBytes = 128;

// How far the stack pointer is above its place at a function's first instruction once the function has
// returned.
inline constexpr std::uint64_t kReturnPopsBytes = 8;

// Where the C library's descriptor of a thread may begin, seen from its thread pointer, and how far beyond
// the thread pointer the block goes that the thread's stack is part of.
inline constexpr std::uint64_t kDescriptorBelow = 0;
inline constexpr std::uint64_t kMaximumAboveDescriptor = 16 * 1024;  // the alignment of thread-local storage

// True where a stop sets a thread back to before the call that it interrupts, and forgets that there was one.
inline constexpr bool kStopHidesCall = false;

// The system call instruction, and the C library's code behind which the kernel restores a thread
// (mov $15,%rax; syscall): not an exported symbol, but debuggers recognise it by these very bytes.
inline constexpr std::string_view kSyscallInstruction("\x0f\x05", 2);
inline constexpr bool kTrampolineIsInVdso = false;
inline constexpr std::string_view kSignalTrampoline("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);

inline constexpr std::size_t kLongestCallBytes = 7;  // of a call instruction

// System calls that not every processor has; where one is missing, a number below −1 that no thread is in.
inline constexpr std::int64_t kPoll = SYS_poll;
inline constexpr std::int64_t kSelect = SYS_select;
inline constexpr std::int64_t kPause = SYS_pause;
inline constexpr std::int64_t kEpollWait = SYS_epoll_wait;
inline constexpr std::int64_t kOpen = SYS_open;

// The numbers that DWARF gives to registers.
namespace dwarf {
inline constexpr std::size_t kFramePointer = 6;
inline constexpr std::size_t kStackPointer = 7;
inline constexpr std::size_t kReturnAddress = 16;
inline constexpr std::size_t kReturnColumn = 16;  // of unwind tables: it is the instruction pointer itself
inline constexpr std::size_t kRegisterCount = 17;

// rbx, rbp, r12 to r15: what a function gives back as it found it.
constexpr bool IsCalleeSaved(std::size_t number) {
  return number == 3 || number == kFramePointer || (number >= 12 && number <= 15);
}
}  // namespace dwarf

// A call leaves the return address on the stack, never in a register; a frame pointer points below it, at the
// top of its frame.
inline constexpr bool kCallsKeepStackPointer = false;
inline constexpr bool kFramePointerTellsStackPointer = true;

// The address of code without what a processor may have hidden in it.
inline std::uint64_t StripCode(std::uint64_t address) { return address; }

// General registers as the kernel has them.
struct NativeRegisters {
  user_regs_struct general;
};
inline constexpr std::size_t kRegisterParts = 1;  // sets of registers by ptrace

// A counter that goes on at one speed on all cores; which speed is not said.
inline std::int64_t ReadTicks() { return static_cast<std::int64_t>(__builtin_ia32_rdtsc()); }

// Words between the stack pointer at the trampoline and FrameWords.
inline constexpr std::size_t kFrameSkipsWords = 0;

// The kernel's signal frame, in words from its uc_flags on (struct ucontext); the word before is the
// restorer.
class FrameWords {
 public:
  static constexpr std::size_t kWords = 29;

  // REQUIRES: kWords words.
  explicit FrameWords(std::span<const std::uint64_t> words) : words_(words) {}

  // True for what the kernel writes into every frame and a handler has no reason to change. `address` is
  // where the words were found.
  bool IsFrame(std::uint64_t address) const {
    constexpr std::uint64_t kKnownFlags = 7;  // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
    constexpr std::uint64_t kUserCodeSegment = 0x33;
    constexpr std::uint64_t kAlwaysSetEflags = 0x202;  // bit 1 and "interrupts enabled"
    constexpr std::uint64_t kMaximumEflags = 1 << 22;
    constexpr std::uint64_t kMaximumFrameBytes = 64 * 1024;
    const std::uint64_t flags = words_[0], link = words_[1], eflags = words_[22], vector_state = words_[28];
    return flags <= kKnownFlags && link == 0 && (words_[23] & 0xffff) == kUserCodeSegment &&
           (eflags & kAlwaysSetEflags) == kAlwaysSetEflags && eflags < kMaximumEflags &&
           (vector_state == 0 || vector_state - address < kMaximumFrameBytes);
  }

  std::uint64_t alternate_start() const { return words_[2]; }
  std::uint64_t alternate_bytes() const { return words_[4]; }
  // Of the code that the signal interrupted.
  std::uint64_t stack_pointer() const { return words_[20]; }
  std::uint64_t instruction_pointer() const { return words_[21]; }

 private:
  std::span<const std::uint64_t> words_;
};

}  // namespace probing::arch
