#include "base/quiescence.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/clock.h"

namespace probing {
namespace {

TEST(Quiescence, AProcessOfOneThreadIsQuietAtOnce) { EXPECT_TRUE(WaitForQuiescence(0)); }

TEST(Quiescence, AThreadThatSleepsIsNotWaitedFor) {
  std::atomic<bool> end{false};
  std::thread sleeper([&] {
    while (!end.load()) SleepUs(20'000);
  });
  EXPECT_TRUE(WaitForQuiescence(5000));
  end.store(true);
  sleeper.join();
}

TEST(Quiescence, ABusyThreadHasRunMeanwhile) {
  std::atomic<std::int64_t> cpu_ns{0};
  std::atomic<bool> end{false};
  std::thread busy([&] {
    while (!end.load()) cpu_ns.store(ReadClockNs(CLOCK_THREAD_CPUTIME_ID));
  });
  while (cpu_ns.load() == 0) SleepUs(100);
  const std::int64_t before_ns = cpu_ns.load();
  EXPECT_TRUE(WaitForQuiescence(20'000));
  // It noted a time a little after the one that was compared: less than what it has to run is left.
  EXPECT_GE(cpu_ns.load() - before_ns, 150'000);
  end.store(true);
  busy.join();
}

// Beside the other tests that may use ptrace. A stopped thread may be between any two instructions. Here a
// tracer, a child of this process, stops it.
TEST(Quiescence, AStoppedThreadMayBeAnywhere) {
  std::atomic<pid_t> tid{0};
  std::atomic<bool> end{false};
  std::thread busy([&] {
    tid.store(static_cast<pid_t>(syscall(SYS_gettid)));
    while (!end.load()) {
    }
  });
  while (tid.load() == 0) SleepUs(100);
  int said[2], heard[2];
  ASSERT_EQ(pipe(said), 0);
  ASSERT_EQ(pipe(heard), 0);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  const pid_t tracer = fork();
  if (tracer == 0) {
    char byte = ptrace(PTRACE_SEIZE, tid.load(), nullptr, nullptr) == 0 ? 'y' : 'n';
    ptrace(PTRACE_INTERRUPT, tid.load(), nullptr, nullptr);
    waitpid(tid.load(), nullptr, __WALL);
    (void)!write(said[1], &byte, 1);
    (void)!read(heard[0], &byte, 1);
    _exit(0);  // lets it go
  }
  char byte = 0;
  ASSERT_EQ(read(said[0], &byte, 1), 1);
  if (byte == 'y') {
    EXPECT_FALSE(WaitForQuiescence(50));
  }
  (void)!write(heard[1], &byte, 1);
  waitpid(tracer, nullptr, 0);
  EXPECT_TRUE(WaitForQuiescence(20'000));
  end.store(true);
  busy.join();
  if (byte != 'y') GTEST_SKIP() << "ptrace is not allowed here";
}

}  // namespace
}  // namespace probing
