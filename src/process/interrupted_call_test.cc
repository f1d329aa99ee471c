#include "process/interrupted_call.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace probing::process {
namespace {

constexpr std::uint64_t kBefore = 0x1000;
constexpr std::uint64_t kBehind = kBefore + arch::kSyscallInstruction.size();

arch::Registers After(std::int64_t call, std::int64_t result) {
  arch::Registers registers;
  registers.set_ip(kBehind);
  registers.set_syscall(call);
  registers.set_result(result);
  return registers;
}

TEST(InterruptedCall, IsMadeAgainWithItsNumber) {
  for (const int result : {-512, -513, -514, -516, -EINTR}) {
    arch::Registers registers = After(232, result);
    RestartInterruptedCall(registers);
    EXPECT_EQ(registers.ip(), kBefore) << result;
    EXPECT_EQ(registers.next_syscall(), 232) << result;
  }
}

TEST(InterruptedCall, IsLeftAloneWhenItFinished) {
  for (const int result : {0, 17, -EAGAIN, -515, -517}) {
    arch::Registers registers = After(232, result);
    RestartInterruptedCall(registers);
    EXPECT_EQ(registers.ip(), kBehind) << result;
  }
}

TEST(InterruptedCall, IsNotWhatARegisterLooksLikeOutsideOfCalls) {
  arch::Registers registers = After(-1, -EINTR);
  EXPECT_FALSE(WasInterrupted(registers));
  RestartInterruptedCall(registers);
  EXPECT_EQ(registers.ip(), kBehind);
}

}  // namespace
}  // namespace probing::process
