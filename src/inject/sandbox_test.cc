#include "inject/sandbox.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace probing::inject {
namespace {

constexpr pid_t kPid = 42;
constexpr std::uint64_t kPtrace = 1ULL << 19;
constexpr std::uint64_t kAdmin = 1ULL << 21;

bool Says(const Check& check, std::string_view words) {
  return (check.detail + " " + check.error.message + " " + check.error.hint).find(words) != std::string::npos;
}

TEST(SandboxTest, GvisorIsNamedInItsOldAndItsNewForm) {
  for (const auto& [release, version] :
       {std::pair{"4.4.0", "#1 SMP Sun Jan 10 15:06:54 PST 2016"}, std::pair{"4.19.0-gvisor", "#1 SMP"}}) {
    const Check check = JudgeKernel(release, version);
    EXPECT_FALSE(check.passed);
    EXPECT_EQ(check.error.code, Code::kPermission);
    EXPECT_TRUE(Says(check, "gVisor (runsc)"));
    EXPECT_TRUE(Says(check, "runtimeClassName"));
  }
  EXPECT_TRUE(JudgeKernel("6.18.44", "#1 SMP PREEMPT_DYNAMIC Thu Nov 19 2026").passed);
  EXPECT_TRUE(JudgeKernel("4.4.0", "#1 SMP").passed);
}

TEST(SandboxTest, AProfileThatForbidsPtraceIsNamedWithTheLineForThePod) {
  const Check check = JudgeTracing(EPERM, EPERM);
  EXPECT_FALSE(check.passed);
  EXPECT_TRUE(Says(check, "seccomp profile of this container forbids ptrace (EPERM)"));
  EXPECT_TRUE(Says(check, "securityContext: {capabilities: {add: [SYS_PTRACE]}}"));
  EXPECT_TRUE(JudgeTracing(0, 0).passed);
}

TEST(SandboxTest, AMissingCallThatReadsMemoryIsNoReasonToRefuse) {
  const Check check = JudgeTracing(0, ENOSYS);
  EXPECT_TRUE(check.passed);
  EXPECT_TRUE(Says(check, "process_vm_readv is not (ENOSYS)"));
}

TEST(SandboxTest, CapabilitiesAreReadFromAStatusFile) {
  const auto found = Capabilities::Parse(
      "Name:\tCapEff: 7\nCapInh:\tffff\nCapPrm:\t0000000000280000\nCapEff:\t0000000000080000\n");
  EXPECT_EQ(found.permitted, kPtrace | kAdmin);
  EXPECT_EQ(found.effective, kPtrace);
  EXPECT_TRUE(found.MayTraceAnyone());
  EXPECT_EQ(Capabilities::Parse("").permitted, 0U);
}

TEST(SandboxTest, WhatTheProcessHasAndThisCommandLacksIsNamed) {
  const Check check = JudgeCapabilities(kPid, {kPtrace | kAdmin, 0}, {kPtrace, 0});
  EXPECT_FALSE(check.passed);
  EXPECT_TRUE(Says(check, "process 42 has capabilities that are missing here: SYS_ADMIN"));
  EXPECT_TRUE(Says(check, "SYS_PTRACE"));
  EXPECT_TRUE(JudgeCapabilities(kPid, {kAdmin, kAdmin}, {kAdmin, 0}).passed);
  EXPECT_TRUE(JudgeCapabilities(kPid, {~0ULL, ~0ULL}, {kPtrace, kPtrace}).passed);
  EXPECT_TRUE(JudgeCapabilities(kPid, {}, {}).passed);
  EXPECT_EQ(Capabilities{}.Lacking({1ULL | 1ULL << 40 | 1ULL << 41, 0}), "CHOWN CHECKPOINT_RESTORE 41");
}

TEST(SandboxTest, AnotherUserNamespaceNeedsTheRightToTrace) {
  EXPECT_TRUE(JudgeUserNamespace(kPid, "user:[1]", "user:[1]", false).passed);
  EXPECT_TRUE(JudgeUserNamespace(kPid, "user:[2]", "user:[1]", true).passed);
  EXPECT_TRUE(JudgeUserNamespace(kPid, "", "user:[4026531837]", false).passed);
  EXPECT_TRUE(JudgeUserNamespace(kPid, "", "", false).passed);
  // Inside of one, rights are for what is inside.
  EXPECT_TRUE(Says(JudgeUserNamespace(kPid, "", "user:[1]", true), "from this user namespace"));
  const Check check = JudgeUserNamespace(kPid, "user:[2]", "user:[1]", false);
  EXPECT_FALSE(check.passed);
  EXPECT_TRUE(Says(check, "another user namespace"));
  EXPECT_TRUE(Says(check, "nsenter --target 42 --user"));
}

TEST(SandboxTest, OneFolderForASocketIsEnough) {
  const Check some =
      JudgeSocketFolders("process 42", {{"/tmp", EROFS}, {"/dev/shm", 0}, {"/var/tmp", EROFS}});
  EXPECT_TRUE(some.passed);
  EXPECT_TRUE(Says(some, "/dev/shm"));
  const Check none = JudgeSocketFolders("process 42", {{"/tmp", EROFS}, {"/dev/shm", ENOENT}});
  EXPECT_FALSE(none.passed);
  EXPECT_TRUE(Says(none, "/tmp (EROFS), /dev/shm (ENOENT)"));
  EXPECT_TRUE(Says(none, "emptyDir"));
}

}  // namespace
}  // namespace probing::inject
