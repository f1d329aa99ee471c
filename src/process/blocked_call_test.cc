#include "process/blocked_call.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "arch/native.h"
#include "base/clock.h"

namespace probing::process {
namespace {

bool Survives(std::int64_t number, std::array<std::uint64_t, 6> arguments) {
  return SurvivesStop(getpid(), {number, arguments, 1, 1});
}

TEST(BlockedCall, IsReadFromWhatTheKernelSays) {
  const auto call = ParseBlockedCall("232 0x4 0x7f01 0x2 0xbb8 0x0 0x8 0x7ffe10 0x7f02\n");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->number, 232);
  EXPECT_EQ(call->arguments[3], 3000U);
  EXPECT_EQ(call->stack_pointer, 0x7ffe10U);
  EXPECT_EQ(call->instruction_pointer, 0x7f02U);
  EXPECT_EQ(ParseBlockedCall("-1 0x7ffe10 0x7f02\n")->number, -1);
  for (const char* none : {"running\n", "", "232 0x4", "-1 0x0 0x0\n", "x"}) {
    EXPECT_FALSE(ParseBlockedCall(none).ok()) << none;
  }
}

TEST(BlockedCall, WithATimeOutThatAStopBeginsAnewDoesNotSurvive) {
  EXPECT_FALSE(Survives(arch::kEpollWait, {4, 1, 2, 3000}));
  EXPECT_FALSE(Survives(SYS_epoll_pwait, {4, 1, 2, 3000}));
  EXPECT_TRUE(Survives(arch::kEpollWait, {4, 1, 2, 0xffffffff}));
  for (const long number :
       {SYS_semtimedop, SYS_rt_sigtimedwait, SYS_io_getevents, 425 /* io_uring_enter */,
        441 /* epoll_pwait2 */, SYS_recvfrom, SYS_recvmsg, SYS_accept4, SYS_connect, SYS_sendto, SYS_ioctl}) {
    EXPECT_FALSE(Survives(number, {})) << number;
  }
}

TEST(BlockedCall, ThatTheKernelContinuesSurvives) {
  EXPECT_TRUE(Survives(SYS_futex, {0, FUTEX_WAIT_PRIVATE, 0, 1}));
  EXPECT_FALSE(Survives(SYS_futex, {0, FUTEX_LOCK_PI}));
  for (const std::int64_t number : std::initializer_list<std::int64_t>{
           SYS_nanosleep, SYS_clock_nanosleep, arch::kPoll, arch::kSelect, SYS_wait4, arch::kPause}) {
    EXPECT_TRUE(Survives(number, {})) << number;
  }
}

TEST(BlockedCall, OfASocketDoesNotSurviveAndOfAPipeDoes) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const int socket = static_cast<int>(syscall(SYS_socket, 1, 1, 0));  // AF_UNIX, SOCK_STREAM
  EXPECT_TRUE(Survives(SYS_read, {static_cast<std::uint64_t>(pipes[0])}));
  EXPECT_FALSE(Survives(SYS_read, {static_cast<std::uint64_t>(socket)}));
  EXPECT_FALSE(Survives(SYS_read, {99999}));
  for (const int fd : {pipes[0], pipes[1], socket}) close(fd);
}

TEST(BlockedCall, TellsForHowLongAThreadSleeps) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int epoll = epoll_create1(0);
    epoll_event event;
    epoll_wait(epoll, &event, 1, 60'000);
    _exit(0);
  }
  const Deadline deadline = Deadline::AfterMs(20'000);
  while (!deadline.passed()) {
    const auto call = ReadBlockedCall(child, child);
    if (call.ok() && (call->number == arch::kEpollWait || call->number == SYS_epoll_pwait)) break;
    SleepUs(1000);
  }
  const std::int64_t seen_ns = MonotonicNs();
  const auto runs = ReadTimesRun(child, child);
  SleepUs(200'000);
  const auto asleep_ns = AsleepForNs(child, child);
  const std::int64_t most_ns = MonotonicNs() - seen_ns;
  EXPECT_EQ(ReadTimesRun(child, child), runs) << "it was not disturbed";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!asleep_ns) GTEST_SKIP() << "this kernel has no /proc/PID/sched, or that CPU is not ours";
  EXPECT_GT(*asleep_ns, 100'000'000);
  EXPECT_LT(*asleep_ns, most_ns + 20'000'000);
}

}  // namespace
}  // namespace probing::process
