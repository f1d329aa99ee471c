#include "observe/stacks/thread_clock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/clock.h"
#include "observe/stacks/descendants.h"

namespace probing::observe {
namespace {

// A child that waits for a byte, or spins from then on.
class Child {
 public:
  Child() {
    EXPECT_EQ(pipe(pipe_.data()), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    char byte = 0;
    (void)!read(pipe_[0], &byte, 1);
    for (volatile int i = 0;;) i = i + 1;
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(pipe_[0]);
    close(pipe_[1]);
  }
  void Spin() { EXPECT_EQ(write(pipe_[1], "x", 1), 1); }
  pid_t pid() const { return pid_; }

 private:
  std::array<int, 2> pipe_{};
  pid_t pid_ = 0;
};

TEST(ThreadClock, ASleepingThreadHasNotRunAndARunningOneHas) {
  Child child;
  auto clock = ThreadClock::Open(child.pid(), child.pid());
  ASSERT_TRUE(clock.ok());
  const Deadline deadline = Deadline::AfterMs(5000);
  auto look = clock->LookNow();
  while (look.ok() && look->has_run && !deadline.passed()) look = clock->LookNow();
  ASSERT_TRUE(look.ok());
  EXPECT_FALSE(look->has_run);
  EXPECT_FALSE(look->on_cpu);

  child.Spin();
  while (look.ok() && !look->on_cpu && !deadline.passed()) look = clock->LookNow();
  ASSERT_TRUE(look.ok());
  EXPECT_TRUE(look->on_cpu);
  EXPECT_TRUE(look->has_run);
}

TEST(ThreadClock, TheEndOfAThreadIsNoticed) {
  Result<ThreadClock> clock = Error{};
  {
    Child child;
    clock = ThreadClock::Open(child.pid(), child.pid());
    ASSERT_TRUE(clock.ok());
  }
  const auto look = clock->LookNow();
  ASSERT_FALSE(look.ok());
  EXPECT_EQ(look.error().code, Code::kNotFound);
}

TEST(ThreadClock, AThreadThatIsNotThereIsNotFound) {
  EXPECT_EQ(ThreadClock::Open(getpid(), 1).error().code, Code::kNotFound);
}

TEST(Descendants, ChildrenAndTheirChildrenAreFound) {
  const Child child;
  const std::vector<pid_t> found = FindDescendants(getpid());
  EXPECT_NE(std::find(found.begin(), found.end(), child.pid()), found.end());
}

}  // namespace
}  // namespace probing::observe
