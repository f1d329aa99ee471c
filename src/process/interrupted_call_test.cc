#include "process/interrupted_call.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace probing::process {
namespace {

user_regs_struct After(std::int64_t call, std::int64_t result) {
  user_regs_struct registers{};
  registers.rip = 0x1002;
  registers.orig_rax = static_cast<std::uint64_t>(call);
  registers.rax = static_cast<std::uint64_t>(result);
  return registers;
}

TEST(InterruptedCall, IsMadeAgainWithItsNumber) {
  for (const int result : {-512, -513, -514, -516, -EINTR}) {
    user_regs_struct registers = After(232, result);
    RestartInterruptedCall(registers);
    EXPECT_EQ(registers.rip, 0x1000U) << result;
    EXPECT_EQ(registers.rax, 232U) << result;
  }
}

TEST(InterruptedCall, IsLeftAloneWhenItFinished) {
  for (const int result : {0, 17, -EAGAIN, -515, -517}) {
    user_regs_struct registers = After(232, result);
    RestartInterruptedCall(registers);
    EXPECT_EQ(registers.rip, 0x1002U) << result;
  }
}

TEST(InterruptedCall, IsNotWhatARegisterLooksLikeOutsideOfCalls) {
  user_regs_struct registers = After(-1, -EINTR);
  EXPECT_FALSE(WasInterrupted(registers));
  RestartInterruptedCall(registers);
  EXPECT_EQ(registers.rip, 0x1002U);
}

}  // namespace
}  // namespace probing::process
