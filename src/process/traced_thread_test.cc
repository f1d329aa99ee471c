#include "process/traced_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

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

}  // namespace
}  // namespace probing::process
