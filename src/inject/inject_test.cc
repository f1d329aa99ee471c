// Enters children of this very program, with a library of the system's, and looks whether they notice.

#include "inject/inject.h"

#include <errno.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/file.h"

namespace probing::inject {
namespace {

constexpr std::int64_t kWaitMs = 300;
constexpr int kTimes = 5;

struct Counters {
  volatile std::uint64_t loops, wrong, early;
};

Counters* Shared() {
  static auto* const counters = static_cast<Counters*>(
      mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return counters;
}

// One that nothing here uses.
std::string SomeLibrary() {
  glob_t found{};
  std::string path;
  if (glob("/lib/*-linux-gnu/libanl.so.1", 0, nullptr, &found) == 0) path = found.gl_pathv[0];
  globfree(&found);
  return path;
}

class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    *Shared() = {};
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      _exit(0);
    }
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

  void ExpectProgress() const {
    const std::uint64_t before = Shared()->loops;
    const Deadline deadline = Deadline::AfterMs(30'000);
    while (Shared()->loops < before + 2 && !deadline.passed()) SleepUs(1000);
    EXPECT_GE(Shared()->loops, before + 2);
    EXPECT_EQ(waitpid(pid_, nullptr, WNOHANG), 0) << "it has ended";
    EXPECT_EQ(Shared()->wrong, 0U);
    EXPECT_EQ(Shared()->early, 0U);
  }

  // Enters it again and again, at different moments of what it does.
  void Enter() const {
    const std::string library = SomeLibrary();
    if (library.empty()) GTEST_SKIP() << "no library here that could be loaded";
    for (int i = 1; i <= kTimes; ++i) {
      const auto report = Inject({pid_, library, 30'000});
      ASSERT_TRUE(report.ok()) << report.error().message << " " << report.error().hint;
      EXPECT_EQ(report->held_thread, pid_);
      EXPECT_EQ(LibrariesLoaded(), i);
      ExpectProgress();
    }
  }

 private:
  int LibrariesLoaded() const {
    const auto maps = ReadFile("/proc/" + std::to_string(pid_) + "/maps");
    int found = 0;
    for (std::size_t at = 0; maps.ok() && (at = maps->find("r-xp", at)) != std::string::npos; ++at) {
      const std::size_t end = maps->find('\n', at);
      found += maps->substr(at, end - at).find("libprobing.so") != std::string::npos;
    }
    return found;
  }

  pid_t pid_ = 0;
};

// Calls `wait`, which should take kWaitMs and return `right`, for ever.
void WaitForEver(const std::function<long()>& wait, long right) {
  while (true) {
    const std::int64_t began = MonotonicNs();
    if (wait() != right) Shared()->wrong = Shared()->wrong + 1;
    // Sockets count in ticks of the kernel, of up to 10 ms.
    if (MonotonicNs() - began < (kWaitMs - 10) * 1'000'000) Shared()->early = Shared()->early + 1;
    Shared()->loops = Shared()->loops + 1;
  }
}

TEST(Inject, AChildThatComputesGetsTheSameNumbers) {
  const Child child([] {
    // Vector, general and floating point registers are all in use, whatever the compiler makes of it.
    const auto compute = [](double seed) {
      double values[16];
      for (int i = 0; i < 16; ++i) values[i] = seed + i;
      for (int round = 0; round < 20'000; ++round) {
        for (double& value : values) value = value * 1.0000001 + 0.5;
      }
      double sum = 0;
      for (const double value : values) sum += value;
      return sum;
    };
    volatile double seed = 1;
    const double right = compute(seed);
    while (true) {
      if (compute(seed) != right) Shared()->wrong = Shared()->wrong + 1;
      Shared()->loops = Shared()->loops + 1;
    }
  });
  child.Enter();
}

TEST(Inject, AChildThatSleepsSleepsAsLongAsItWanted) {
  const Child child([] {
    WaitForEver(
        [] {
          const timespec duration{0, kWaitMs * 1'000'000};
          return syscall(SYS_nanosleep, &duration, nullptr);
        },
        0);
  });
  child.Enter();
}

TEST(Inject, AChildThatWaitsForALockWithATimeOutGetsIt) {
  const Child child([] {
    static std::uint32_t word = 0;
    WaitForEver(
        [] {
          const timespec duration{0, kWaitMs * 1'000'000};
          return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &duration, nullptr, 0) == -1 && errno == ETIMEDOUT;
        },
        1);
  });
  child.Enter();
}

TEST(Inject, AChildThatWaitsForEventsIsNotToldOfASignal) {
  const Child child([] {
    static const int epoll = epoll_create1(0);
    WaitForEver(
        [] {
          epoll_event event;
          return static_cast<long>(epoll_wait(epoll, &event, 1, kWaitMs));
        },
        0);
  });
  child.Enter();
}

TEST(Inject, AChildThatWaitsOnASocketIsNotToldOfASignal) {
  const Child child([] {
    static int ends[2];
    const timeval timeout{0, kWaitMs * 1000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) _exit(1);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    WaitForEver(
        [] {
          char byte;
          return recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN;
        },
        1);
  });
  child.Enter();
}

}  // namespace
}  // namespace probing::inject
