#include "process/status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "process/thread_status.h"

namespace probing::process {
namespace {

const std::string kRoot = PROBING_TEST_ROOT "/proc";

TEST(Status, ReadsIdentityStateAndRights) {
  const auto status = ReadStatus(4242, kRoot);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->name, "train) S 1 (x") << "a name may look like the fields after it";
  EXPECT_EQ(status->state, 't');
  EXPECT_EQ(status->parent, 17);
  EXPECT_EQ(status->tracer, 99);
  EXPECT_EQ(status->real_uid, 1000U);
  EXPECT_EQ(status->effective_uid, 1001U);
  EXPECT_EQ(status->threads, 3);
  EXPECT_EQ(status->seccomp_mode, 2);
  EXPECT_EQ(status->seccomp_filters, 1);
  EXPECT_TRUE(status->shadow_stack);
  EXPECT_FALSE(status->kernel_thread);
  EXPECT_EQ(status->start_ticks, 987654U);
}

TEST(Status, KnowsThePidInsideItsNamespace) {
  const auto status = ReadStatus(4242, kRoot);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->ns_pids, (std::vector<pid_t>{4242, 7}));
  EXPECT_EQ(status->own_pid(), 7);
}

TEST(Status, RecognisesAKernelThread) {
  const auto status = ReadStatus(77, kRoot);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->kernel_thread);
  EXPECT_EQ(status->own_pid(), 77);
}

TEST(Status, KnowsAProcessOnItsWayOut) {
  EXPECT_TRUE(ReadStatus(55, kRoot)->exiting);  // though its state still says "running"
  EXPECT_FALSE(ReadStatus(4242, kRoot)->exiting);
}

TEST(Status, MissingProcessIsNotFound) {
  const auto status = ReadStatus(1234, kRoot);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kNotFound);
  EXPECT_EQ(status.error().message, "no process 1234");
}

TEST(Status, GarbageIsSurvived) {
  const auto status = ReadStatus(88, kRoot);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->name, "");
  EXPECT_EQ(status->own_pid(), 88);
  EXPECT_EQ(status->start_ticks, 0U);
}

TEST(Status, ReadsThisVeryProcess) {
  const auto status = ReadStatus(getpid());
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->pid, getpid());
  EXPECT_EQ(status->parent, getppid());
  EXPECT_EQ(status->effective_uid, geteuid());
  EXPECT_GT(status->start_ticks, 0U);
}

TEST(ThreadState, IsOneWordEverywhere) {
  EXPECT_EQ(StateWord('D'), "uninterruptible");
  EXPECT_EQ(StateWord('T'), "stopped");
  EXPECT_EQ(StateWord('t'), "traced");
  EXPECT_EQ(StateWord('S'), "sleeping");
  EXPECT_EQ(StateWord('?'), "unknown");
}

TEST(CommandLine, HasSpacesBetweenTheWords) {
  EXPECT_EQ(CommandLine(4242, kRoot), "python3 train.py --name=two words");
}

TEST(CommandLine, IsTheNameInBracketsWhenThereIsNone) {
  EXPECT_EQ(CommandLine(77, kRoot), "[kthreadd]");
  EXPECT_EQ(CommandLine(1234, kRoot), "");
}

TEST(ShortCommandLine, LeavesOutTheFoldersOfProgramAndScript) {
  EXPECT_EQ(ShortCommandLine(55, kRoot), "python train.py --out /data/x");
  EXPECT_EQ(ShortCommandLine(77, kRoot), "[kthreadd]");
}

TEST(StartupEnvironment, FindsWholeNamesOnly) {
  EXPECT_EQ(*StartupEnvironment(4242, "PROBING_DISABLE", kRoot), "1");
  EXPECT_EQ(*StartupEnvironment(4242, "EMPTY", kRoot), "");
  EXPECT_EQ(StartupEnvironment(4242, "PROBING", kRoot).error().code, Code::kNotFound);
  EXPECT_FALSE(StartupEnvironment(1234, "PATH", kRoot).ok());
}

TEST(ListThreads, ListsThemInOrder) {
  EXPECT_EQ(*ListThreads(4242, kRoot), (std::vector<pid_t>{4242, 4243, 4250}));
  EXPECT_FALSE(ListThreads(1234, kRoot).ok());
}

}  // namespace
}  // namespace probing::process
