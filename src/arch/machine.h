// Numbers of other processors than this: of those whose core files we read, and whose registers ptrace names.
#pragma once

#include <elf.h>

#include <cstdint>

namespace probing::arch {

// "x86-64", "arm64", or nullptr for one whose memory is not laid out as we know it: a file's e_machine.
constexpr const char* NameOf(std::uint16_t elf_machine) {
  if (elf_machine == EM_X86_64) return "x86-64";
  return elf_machine == EM_AARCH64 ? "arm64" : nullptr;
}

// From the start of the smallest signal frame to the frame record that the kernel makes behind it, to which
// the frame pointer leads from a handler, where kTrampolineIsInVdso.
inline constexpr std::uint64_t kSignalFrameBytes = 4688;  // of arm64

// By which ptrace sets the system call that a thread is in, where kStopHidesCall.
inline constexpr int kCallNote = 0x404;  // of arm64

}  // namespace probing::arch
