#include "process/interrupted_call.h"

#include <cerrno>

namespace probing::process {
namespace {

// More of the kernel's internal results.
constexpr std::int64_t kRestartSys = -512;
constexpr std::int64_t kRestartNoHandler = -514;

}  // namespace

bool WasInterrupted(const arch::Registers& registers) {
  if (registers.syscall() < 0) return false;
  const std::int64_t result = registers.result();
  return (result <= kRestartSys && result >= kRestartNoHandler) || result == kRestartBlock ||
         result == -EINTR;
}

void RestartInterruptedCall(arch::Registers& registers) {
  if (WasInterrupted(registers)) registers.RepeatSyscall();
}

}  // namespace probing::process
