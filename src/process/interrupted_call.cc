#include "process/interrupted_call.h"

#include <cerrno>

namespace probing::process {
namespace {

// More of the kernel's internal results.
constexpr std::int64_t kRestartSys = -512;
constexpr std::int64_t kRestartNoHandler = -514;

constexpr std::uint64_t kSyscallInstructionBytes = 2;

}  // namespace

bool WasInterrupted(const user_regs_struct& registers) {
  if (static_cast<std::int64_t>(registers.orig_rax) < 0) return false;
  const auto result = static_cast<std::int64_t>(registers.rax);
  return (result <= kRestartSys && result >= kRestartNoHandler) || result == kRestartBlock ||
         result == -EINTR;
}

void RestartInterruptedCall(user_regs_struct& registers) {
  if (!WasInterrupted(registers)) return;
  registers.rip -= kSyscallInstructionBytes;
  registers.rax = registers.orig_rax;
}

}  // namespace probing::process
