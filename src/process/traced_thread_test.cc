#include "process/traced_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "process/status.h"

namespace probing::process {
namespace {

// Stops announce themselves by a signal to the process: one thread's must not be lost to another's.
TEST(TracedThreadTest, StopsAreNoticedOnSeveralThreadsAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 100;
  constexpr int kPatienceMs = 5000;
  std::atomic<int> stopped{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) pause();
      }
      {
        Result<TracedThread> traced = TracedThread::Seize(child);
        for (int round = 0; traced.ok() && round < kRounds; ++round) {
          // It looks a last time when its time is over: what is lost shows as all of it gone.
          const Deadline deadline = Deadline::AfterMs(kPatienceMs);
          if (!traced->Interrupt(deadline).ok() || deadline.passed()) break;
          ++stopped;
          if (!traced->Continue().ok()) break;
        }
      }
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stopped, kThreads * kRounds);
}

pid_t StartSleeper() {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  return child;
}

// A sampler holds threads for moments, and an inject or a backtrace may come just then.
TEST(TracedThreadTest, AnotherLookOfOursIsWaitedFor) {
  const pid_t child = StartSleeper();
  std::atomic<bool> held{false};
  std::thread first([&] {
    const Result<TracedThread> traced = TracedThread::Seize(child);
    held = true;
    usleep(20'000);
  });
  while (!held) usleep(100);
  EXPECT_TRUE(TracedThread::Seize(child).ok());
  first.join();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(TracedThreadTest, AnotherLookThatDoesNotEndIsNotWaitedForWithoutEnd) {
  const pid_t child = StartSleeper();
  std::atomic<bool> held{false}, done{false};
  std::thread first([&] {
    const Result<TracedThread> traced = TracedThread::Seize(child);
    held = true;
    while (!done) usleep(1000);
  });
  while (!held) usleep(100);
  const auto second = TracedThread::Seize(child);
  done = true;
  first.join();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kPermission);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

volatile sig_atomic_t* handled = nullptr;  // shared with the child

TEST(TracedThreadTest, ASignalThatComesBeforeTheStopIsPassedOn) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  handled = static_cast<volatile sig_atomic_t*>(page);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGUSR1, [](int) { *handled = *handled + 1; });
    (void)!write(ready[1], "x", 1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  for (int sent = 1; sent <= 20; ++sent) {
    const Deadline deadline = Deadline::AfterMs(10'000);
    {
      Result<TracedThread> traced = TracedThread::Seize(child);
      ASSERT_TRUE(traced.ok()) << traced.error().message;
      kill(child, SIGUSR1);
      // It waits for its tracer to say what becomes of the signal.
      while (ReadStatus(child)->state != 't' && !deadline.passed()) usleep(100);
      ASSERT_TRUE(traced->Interrupt(deadline).ok());
    }
    while (*handled < sent && !deadline.passed()) usleep(100);
    ASSERT_EQ(*handled, sent);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  munmap(page, 4096);
}

}  // namespace
}  // namespace probing::process
