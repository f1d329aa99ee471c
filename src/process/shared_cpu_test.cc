#include "process/shared_cpu.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <new>

#include "base/clock.h"

namespace probing::process {
namespace {

constexpr int kRounds = 200;

// A child that counts as fast as it can, in memory that it shares with the test.
class SharedCpuTest : public testing::Test {
 protected:
  void SetUp() override {
    void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    count_ = new (shared) std::atomic<std::uint64_t>(0);
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true) ++*count_;
    }
    while (*count_ == 0) SleepUs(100);
  }
  void TearDown() override { End(); }

  void End() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }

  static cpu_set_t OwnCpus() {
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof(cpus), &cpus);
    return cpus;
  }

  std::atomic<std::uint64_t>* count_ = nullptr;
  pid_t child_ = 0;
};

TEST_F(SharedCpuTest, AThreadThatStoodStillHasNotCounted) {
  SharedCpu shared(child_, child_);
  int still = 0;
  for (int i = 0; i < kRounds; ++i) {
    if (!shared.Enter()) continue;
    const std::uint64_t before = *count_;
    for (int spin = 0; spin < 1000; ++spin) asm volatile("");
    const std::uint64_t after = *count_;
    if (shared.StoodStill()) {
      ++still;
      EXPECT_EQ(before, after);
    }
    SleepUs(100);
  }
  EXPECT_GT(still, kRounds / 2);
}

TEST_F(SharedCpuTest, AThreadThatRanIsNoticed) {
  SharedCpu shared(child_, child_);
  int entered = 0;
  for (int i = 0; i < kRounds && entered < 10; ++i) {
    if (!shared.Enter()) continue;
    ++entered;
    const std::uint64_t before = *count_;
    while (*count_ == before) SleepUs(100);  // our CPU is free meanwhile
    EXPECT_FALSE(shared.StoodStill());
  }
  EXPECT_GT(entered, 0);
}

TEST_F(SharedCpuTest, AfterwardsThisThreadMayUseAllItsCpusAgain) {
  const cpu_set_t before = OwnCpus();
  {
    SharedCpu shared(child_, child_);
    (void)shared.Enter();
    const cpu_set_t meanwhile = OwnCpus();
    EXPECT_EQ(CPU_COUNT(&meanwhile), 1);
  }
  const cpu_set_t after = OwnCpus();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_F(SharedCpuTest, AThreadThatIsGoneCannotBeJoined) {
  SharedCpu shared(child_, child_);
  End();
  EXPECT_FALSE(shared.Enter());
  EXPECT_FALSE(shared.CanEver());
}

TEST_F(SharedCpuTest, NobodyWaitsForARealTimeThread) {
  sched_param priority{};
  priority.sched_priority = 1;
  if (sched_setscheduler(child_, SCHED_FIFO, &priority) != 0) GTEST_SKIP() << "needs CAP_SYS_NICE";
  const cpu_set_t before = OwnCpus();
  SharedCpu shared(child_, child_);
  EXPECT_FALSE(shared.Enter());
  EXPECT_FALSE(shared.CanEver());
  const cpu_set_t after = OwnCpus();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace probing::process
