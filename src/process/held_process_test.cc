#include "process/held_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "process/held_thread.h"
#include "process/status.h"

namespace probing::process {
namespace {

constexpr int kThreads = 4;

// What a child reports, in memory that it shares with the test.
struct Report {
  std::atomic<std::uint64_t> loops[kThreads];
  std::atomic<std::uint64_t> interrupted;
};

class HeldProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    void* shared = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    report_ = new (shared) Report{};
  }
  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    munmap(report_, sizeof(Report));
  }

  void Start(const std::function<void()>& body) {
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      _exit(0);
    }
  }

  static bool Eventually(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::AfterMs(20'000);
    while (!condition() && !deadline.passed()) SleepUs(1000);
    return condition();
  }

  Result<HeldProcess> Hold() { return HeldProcess::Hold(child_, sleepers_, Deadline::AfterMs(10'000)); }

  char State() const { return ReadStatus(child_)->state; }

  Sleepers sleepers_;
  Report* report_ = nullptr;
  pid_t child_ = 0;
};

TEST_F(HeldProcessTest, OneThreadStandsStillAsLongAsItIsHeld) {
  Start([this] {
    while (true) ++report_->loops[0];
  });
  ASSERT_TRUE(Eventually([this] { return report_->loops[0] > 0; }));
  std::uint64_t seen = 0;
  {
    const auto held = HeldThread::Hold(child_, Deadline::AfterMs(10'000));
    ASSERT_TRUE(held.ok()) << held.error().message;
    seen = report_->loops[0];
    SleepUs(20'000);
    EXPECT_EQ(report_->loops[0], seen);
  }
  EXPECT_TRUE(Eventually([this, seen] { return report_->loops[0] > seen; }));
}

TEST_F(HeldProcessTest, NoThreadRunsUntilItIsReleased) {
#ifdef PROBING_TSAN
  GTEST_SKIP() << "the sanitizer has a thread of its own in every process";
#endif
  Start([this] {
    const auto count = [this](int i) {
      while (true) ++report_->loops[i];
    };
    for (int i = 1; i < kThreads; ++i) std::thread(count, i).detach();
    count(0);
  });
  const auto all_run = [this](std::uint64_t than) {
    return std::all_of(report_->loops, report_->loops + kThreads,
                       [&](const auto& loops) { return loops > than; });
  };
  ASSERT_TRUE(Eventually([&] { return all_run(0); }));
  auto held = Hold();
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_EQ(held->thread_count(), static_cast<std::size_t>(kThreads));
  std::uint64_t most = 0;
  std::uint64_t before[kThreads];
  for (int i = 0; i < kThreads; ++i) most = std::max(most, before[i] = report_->loops[i]);
  SleepUs(50'000);
  for (int i = 0; i < kThreads; ++i) EXPECT_EQ(report_->loops[i], before[i]);
  EXPECT_GT(held->Release(), 50'000'000);
  EXPECT_EQ(held->Release(), 0);
  EXPECT_TRUE(Eventually([&] { return all_run(most); }));
}

TEST_F(HeldProcessTest, AWaitingThreadSeesNoEintr) {
  Start([this] {
    const int epoll = epoll_create1(0);
    while (true) {
      epoll_event event;
      if (epoll_wait(epoll, &event, 1, 30) < 0) ++report_->interrupted;
      timespec duration{0, 30'000'000};
      if (nanosleep(&duration, nullptr) < 0) ++report_->interrupted;
      ++report_->loops[0];
    }
  });
  ASSERT_TRUE(Eventually([&] { return report_->loops[0] > 0; }));
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(Hold().ok());
    SleepUs(1000);
  }
  const std::uint64_t before = report_->loops[0];
  EXPECT_TRUE(Eventually([&] { return report_->loops[0] > before + 1; }));
  EXPECT_EQ(report_->interrupted, 0U);
}

TEST_F(HeldProcessTest, AWaitThatAStopWouldBeginAnewIsLeftAlone) {
  Start([this] {
    const int epoll = epoll_create1(0);
    epoll_event event;
    report_->loops[0] = 1;
    epoll_wait(epoll, &event, 1, 1'000);
    report_->loops[1] = 1;
    pause();
  });
  ASSERT_TRUE(Eventually([&] { return report_->loops[0] == 1 && State() == 'S'; }));
  const std::int64_t start_ns = MonotonicNs();
  while (report_->loops[1] == 0 && MonotonicNs() - start_ns < 10'000'000'000) {
    auto held = Hold();
    ASSERT_TRUE(held.ok());
    EXPECT_LE(held->thread_count() + held->asleep_count(), 1U);
    held->Release();
    SleepUs(100'000);
  }
  EXPECT_EQ(report_->loops[1], 1U) << "it never got to its end";
}

TEST_F(HeldProcessTest, ASleeperThatRanMeanwhileIsNoticedAndHeldTheNextTime) {
  Sleepers sleepers;
  EXPECT_FALSE(sleepers.HasRunLately(7, 100));
  EXPECT_FALSE(sleepers.HasRunLately(7, 100));
  EXPECT_TRUE(sleepers.HasRunLately(7, 101)) << "its wait is as young as the last look";
  EXPECT_FALSE(sleepers.HasRunLately(7, 101));
  SleepUs(30'000);
  EXPECT_FALSE(sleepers.HasRunLately(7, 102)) << "it may have waited for long";
}

TEST_F(HeldProcessTest, ASignalThatCameMeanwhileStillInterrupts) {
  Start([this] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    sigaction(SIGUSR1, &action, nullptr);
    const int epoll = epoll_create1(0);
    report_->loops[0] = 1;
    epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) < 0 && errno == EINTR) ++report_->interrupted;
    pause();
  });
  ASSERT_TRUE(Eventually([&] { return report_->loops[0] == 1 && State() == 'S'; }));
  {
    auto held = Hold();
    ASSERT_TRUE(held.ok()) << held.error().message;
    kill(child_, SIGUSR1);
  }
  EXPECT_TRUE(Eventually([&] { return report_->interrupted == 1; }));
}

TEST_F(HeldProcessTest, AStoppedProcessStaysStopped) {
  Start([] { pause(); });
  kill(child_, SIGSTOP);
  ASSERT_TRUE(Eventually([&] { return State() == 'T'; }));
  {
    const auto held = Hold();
    ASSERT_TRUE(held.ok()) << held.error().message;
    EXPECT_EQ(held->thread_count(), 0U);
  }
  EXPECT_EQ(State(), 'T');
}

TEST_F(HeldProcessTest, AProcessThatIsGoneIsAnError) {
  Start([] {});
  waitpid(child_, nullptr, 0);
  const auto held = Hold();
  ASSERT_FALSE(held.ok());
  child_ = 0;
}

}  // namespace
}  // namespace probing::process
