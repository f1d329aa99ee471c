// The general registers of a stopped thread, by what they are for.
//
// A value: read from the kernel or from a core file through bytes(), changed, written back. What a thread
// needs so that a system call goes on or does not is part of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arch/native.h"

namespace probing::arch {

// One set of registers as ptrace reads it and, when `written`, writes it.
struct RegisterPart {
  int note;
  std::span<std::byte> bytes;
  bool written;
};

// The system call in which a thread waited before it was stopped, and its pointers there.
struct WaitedCall {
  std::int64_t number = -1;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t sp = 0;
  std::uint64_t ip = 0;
};

class Registers {
 public:
  std::uint64_t ip() const;
  void set_ip(std::uint64_t address);
  std::uint64_t sp() const;
  void set_sp(std::uint64_t address);
  // Where the C library keeps the thread's descriptor.
  std::uint64_t thread_pointer() const;

  // Of a function that returned, or of a system call.
  std::int64_t result() const;
  void set_result(std::int64_t value);

  // Makes the next instruction the first of the function at `code`, with a stack that begins at `sp` and no
  // system call to restart. It returns to `returns_to`, which what is at `sp` says too (signal_frame.h).
  void EnterFunction(std::uint64_t code, std::uint64_t sp, std::uint64_t returns_to);
  // REQUIRES: index < 4.
  void set_argument(std::size_t index, std::uint64_t value);

  // The system call the thread is in, or −1.
  std::int64_t syscall() const;
  // −1: it is not restarted, and at its entry not made at all.
  void set_syscall(std::int64_t number);
  // REQUIRES: index < 6.
  std::uint64_t syscall_argument(std::size_t index) const;
  void set_syscall_argument(std::size_t index, std::uint64_t value);
  // What the system call instruction is going to ask for.
  std::int64_t next_syscall() const;
  void set_next_syscall(std::int64_t number);
  // Back to before the call's instruction, so that it is made again.
  void RepeatSyscall();

  // In the order of DWARF's numbers.
  std::array<std::uint64_t, dwarf::kRegisterCount> InDwarfOrder() const;

  // As the kernel lays them out: the general ones (NT_PRSTATUS) alone, which are all that a core file has,
  // and everything that makes up this value.
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(&native_.general, 1)); }
  std::array<RegisterPart, kRegisterParts> Parts();
  const auto& native() const { return native_.general; }

  // Where a stop hides the call (kStopHidesCall): shows the thread as being in `waited` again, when that is
  // what the stop interrupted, with the result by which a kernel says that it would restart it.
  void Recognise(const WaitedCall& waited);
  // The reverse, before they are written.
  void PrepareForKernel();

 private:
  NativeRegisters native_{};
};

}  // namespace probing::arch
