#include "inject/safe_point.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <cerrno>

namespace probing::inject {
namespace {

using process::Mapping;

constexpr std::uint64_t kProgram = 0x400000, kLibc = 0x500000, kLoader = 0x600000, kAllocator = 0x700000,
                        kVdso = 0x800000, kJit = 0x900000, kData = 0xa00000;
constexpr std::int64_t kRestartSys = -512, kRestartNoHandler = -514, kRestartBlock = -516;

Mapping At(std::uint64_t start, bool executable, std::string path) {
  return {start, start + 0x1000, 0, 0, true, !executable, executable, std::move(path)};
}

SafePointRules SomeRules() {
  SafePointRules rules;
  const Mapping libc = At(kLibc, true, "/lib/libc.so.6"), loader = At(kLoader, true, "/lib/ld.so"),
                allocator = At(kAllocator, true, "/lib/libjemalloc.so"), vdso = At(kVdso, true, "[vdso]");
  rules.maps = process::Maps::Of({At(kProgram, true, "/bin/job"), libc, loader, allocator, vdso,
                                  At(kJit, true, ""), At(kData, false, "[heap]")});
  for (const Mapping& code : {libc, loader, allocator, vdso}) rules.forbidden.Add(code);
  for (const Mapping& code : {loader, allocator}) rules.never_waits_safely.Add(code);
  return rules;
}

arch::Registers Running(std::uint64_t ip) {
  arch::Registers registers;
  registers.set_ip(ip);
  registers.set_syscall(-1);
  return registers;
}

arch::Registers Waiting(std::int64_t call, std::int64_t result, std::uint64_t ip = kLibc + 0x100) {
  arch::Registers registers = Running(ip);
  registers.set_syscall(call);
  registers.set_result(result);
  return registers;
}

Verdict Judged(const arch::Registers& registers, bool in_sequence = false) {
  arch::Registers resume;
  return JudgePlace(SomeRules(), registers, in_sequence, resume);
}

TEST(JudgePlaceTest, CodeOfTheProgramAndOfAJitMayBeInterrupted) {
  EXPECT_EQ(Judged(Running(kProgram + 1)), Verdict::kSelfReturn);
  EXPECT_EQ(Judged(Running(kJit)), Verdict::kSelfReturn);
}

TEST(JudgePlaceTest, TheCLibraryTheLoaderAllocatorsAndTheVdsoMayNot) {
  for (const std::uint64_t ip : {kLibc, kLibc + 0xfff, kLoader, kAllocator + 5, kVdso + 5}) {
    EXPECT_EQ(Judged(Running(ip)), Verdict::kForbiddenCode) << ip;
  }
}

TEST(JudgePlaceTest, WhatIsNoCodeMayNot) {
  EXPECT_EQ(Judged(Running(0)), Verdict::kForbiddenCode);
  EXPECT_EQ(Judged(Running(kData)), Verdict::kForbiddenCode);
}

TEST(JudgePlaceTest, ARestartableSequenceIsLeftAlone) {
  EXPECT_EQ(Judged(Running(kProgram), true), Verdict::kInSequence);
}

TEST(JudgePlaceTest, AWaitThatMayBeRepeatedIsASafePoint) {
  const arch::Registers registers = Waiting(SYS_read, kRestartSys);
  arch::Registers resume;
  EXPECT_EQ(JudgePlace(SomeRules(), registers, false, resume), Verdict::kSelfReturn);
  EXPECT_EQ(resume.ip(), registers.ip() - arch::kSyscallInstruction.size());
  EXPECT_EQ(resume.next_syscall(), SYS_read);
}

TEST(JudgePlaceTest, APollThatWritesTheTimeLeftBackMayBeRepeatedUnlessItHasASignalMask) {
  arch::Registers registers = Waiting(SYS_ppoll, kRestartNoHandler);
  registers.set_syscall_argument(2, 0x1000);  // its time-out
  EXPECT_EQ(Judged(registers), Verdict::kSelfReturn);
  registers.set_syscall_argument(3, 0x2000);
  EXPECT_EQ(Judged(registers), Verdict::kUnknownWait);
}

TEST(JudgePlaceTest, ACallThatIsOverIsNot) {
  EXPECT_EQ(Judged(Waiting(SYS_read, 1)), Verdict::kUnknownWait);
  EXPECT_EQ(Judged(Waiting(SYS_read, -EAGAIN)), Verdict::kUnknownWait);
}

TEST(JudgePlaceTest, AnAllocatorOrTheLoaderThatWaitsIsNot) {
  for (const std::uint64_t ip : {kAllocator, kLoader}) {
    EXPECT_EQ(Judged(Waiting(SYS_read, kRestartSys, ip)), Verdict::kUnknownWait) << ip;
    EXPECT_EQ(Judged(Waiting(SYS_nanosleep, kRestartBlock, ip)), Verdict::kUnknownWait) << ip;
  }
}

TEST(JudgePlaceTest, UnknownCallsAreNot) {
  for (const std::int64_t call : std::initializer_list<std::int64_t>{SYS_mmap, SYS_brk, SYS_io_uring_enter,
                                                                     arch::kPause, SYS_rt_sigsuspend}) {
    if (call < 0) continue;  // not of this processor
    EXPECT_EQ(Judged(Waiting(call, kRestartNoHandler)), Verdict::kUnknownWait) << call;
  }
}

TEST(JudgePlaceTest, ALockOfTheCLibraryIsNot) {
  arch::Registers registers = Waiting(SYS_futex, kRestartSys);
  registers.set_syscall_argument(1, FUTEX_WAIT | FUTEX_PRIVATE_FLAG);
  registers.set_syscall_argument(2, 2);
  EXPECT_EQ(Judged(registers), Verdict::kUnknownWait);
  registers.set_syscall_argument(2, 0);  // a condition variable
  EXPECT_EQ(Judged(registers), Verdict::kSelfReturn);
}

TEST(JudgePlaceTest, ATimedWaitIsPutBackByHand) {
  EXPECT_EQ(Judged(Waiting(SYS_nanosleep, kRestartBlock)), Verdict::kTimedWait);
}

TEST(VerdictTest, EveryRefusalHasItsWordsAndOnlyRefusals) {
  for (std::size_t i = 0; i < kVerdicts; ++i) {
    const auto verdict = static_cast<Verdict>(i);
    EXPECT_EQ(std::string(Describe(verdict)).empty(), MayBorrow(verdict)) << i;
    EXPECT_FALSE(MayBorrow(verdict) && MayLast(verdict)) << i;
  }
  EXPECT_TRUE(MayLast(Verdict::kFiltered) && MayLast(Verdict::kForeignStack));
  EXPECT_FALSE(MayLast(Verdict::kForbiddenCode) || MayLast(Verdict::kUnknownWait));
}

}  // namespace
}  // namespace probing::inject
