#include "observe/host/exit_watcher.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "observe/host/proc_connector.h"

namespace probing::observe {
namespace {

enum class Parent : std::uint8_t { kWaitsAtOnce, kNeverWaits };

// A grandchild, so that not this process but another is the one who may wait for it.
class Grandchild {
 public:
  Grandchild(Parent parent, const std::function<void()>& end) {
    EXPECT_EQ(pipe(from_parent_.data()), 0);
    EXPECT_EQ(pipe(start_.data()), 0);
    parent_ = fork();
    if (parent_ != 0) {
      EXPECT_EQ(read(from_parent_[0], &pid_, sizeof(pid_)), static_cast<ssize_t>(sizeof(pid_)));
      return;
    }
    const pid_t child = fork();
    if (child == 0) {
      char byte = 0;
      (void)!read(start_[0], &byte, 1);
      end();
      _exit(99);
    }
    (void)!write(from_parent_[1], &child, sizeof(child));
    if (parent == Parent::kWaitsAtOnce) waitpid(child, nullptr, 0);
    (void)!write(from_parent_[1], &child, sizeof(child));
    while (true) pause();
  }
  ~Grandchild() {
    kill(pid_, SIGKILL);
    kill(parent_, SIGKILL);
    waitpid(parent_, nullptr, 0);
    for (const int fd : {from_parent_[0], from_parent_[1], start_[0], start_[1]}) close(fd);
  }
  void Start() { EXPECT_EQ(write(start_[1], "x", 1), 1); }
  // With a parent that waits: until it has.
  void AwaitParent() {
    pid_t ignored = 0;
    EXPECT_EQ(read(from_parent_[0], &ignored, sizeof(ignored)), static_cast<ssize_t>(sizeof(ignored)));
  }
  pid_t pid() const { return pid_; }

 private:
  std::array<int, 2> from_parent_{}, start_{};
  pid_t parent_ = 0;
  pid_t pid_ = 0;
};

HowItEnded EndOf(Grandchild& child, Parent parent, const ExitWatcherOptions& options) {
  auto watcher = ExitWatcher::Watch(child.pid(), options);
  EXPECT_TRUE(watcher.ok());
  EXPECT_FALSE(watcher->Check().has_value()) << "it still runs";
  child.Start();
  pollfd end{watcher->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 10'000), 1);
  if (parent == Parent::kWaitsAtOnce) child.AwaitParent();
  const auto how = watcher->Check();
  EXPECT_TRUE(how.has_value());
  return how.value_or(HowItEnded{});
}

void Crash() {
  signal(SIGSEGV, SIG_DFL);  // sanitizers have a handler of their own
  raise(SIGSEGV);
}

struct Way {
  const char* name;
  Parent parent;
  bool pidfd, zombie, connector;
};

class EveryWay : public testing::TestWithParam<Way> {
 protected:
  HowItEnded End(const std::function<void()>& end) {
    Grandchild child(GetParam().parent, end);
    return EndOf(child, GetParam().parent, options_);
  }
  void SetUp() override {
    options_.use_pidfd = GetParam().pidfd;
    options_.use_zombie = GetParam().zombie;
    if (GetParam().pidfd && !KeepsExitStatus()) GTEST_SKIP() << "Linux before 6.15";
    if (!GetParam().connector) return;
    auto opened = ProcConnector::Open();
    if (!opened.ok()) GTEST_SKIP() << opened.error().message;
    connector_.emplace(std::move(*opened));
    options_.connector = &*connector_;
  }
  std::optional<ProcConnector> connector_;
  ExitWatcherOptions options_;
};

TEST_P(EveryWay, AnExitCodeIsKnown) {
  const HowItEnded how = End([] { _exit(3); });
  EXPECT_EQ(how.reason, HowItEnded::Reason::kExit);
  EXPECT_EQ(how.exit_code, 3);
  EXPECT_FALSE(how.signal.has_value());
}

TEST_P(EveryWay, SuccessIsKnown) {
  const HowItEnded how = End([] { _exit(0); });
  EXPECT_EQ(how.reason, HowItEnded::Reason::kExit);
  EXPECT_EQ(how.exit_code, 0);
}

TEST_P(EveryWay, ACrashIsASignal) {
  const HowItEnded how = End(Crash);
  EXPECT_EQ(how.reason, HowItEnded::Reason::kSignal);
  EXPECT_EQ(how.signal, SIGSEGV);
  EXPECT_FALSE(how.exit_code.has_value());
}

TEST_P(EveryWay, AKillThatWasNotForMemoryIsASignal) {
  const HowItEnded how = End([] { raise(SIGKILL); });
  EXPECT_EQ(how.reason, HowItEnded::Reason::kSignal);
  EXPECT_EQ(how.signal, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(ExitWatcher, EveryWay,
                         testing::Values(Way{"Pidfd", Parent::kWaitsAtOnce, true, true, false},
                                         Way{"Zombie", Parent::kNeverWaits, false, true, false},
                                         Way{"Connector", Parent::kWaitsAtOnce, false, true, true},
                                         Way{"ConnectorBeforeTheWait", Parent::kNeverWaits, false, false,
                                             true}),
                         [](const auto& test) { return test.param.name; });

TEST(ExitWatcher, WhatNobodyCanKnowIsUnknown) {
  Grandchild child(Parent::kWaitsAtOnce, [] { _exit(3); });
  const HowItEnded how = EndOf(child, Parent::kWaitsAtOnce, {.use_pidfd = false});
  EXPECT_EQ(how.reason, HowItEnded::Reason::kUnknown);
  EXPECT_FALSE(how.exit_code.has_value());
  EXPECT_FALSE(how.signal.has_value());
  EXPECT_NE(how.message, "");
}

TEST(ExitWatcher, AnotherUsersZombieIsUnknownAndNotASuccess) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Grandchild child(Parent::kNeverWaits, [] { _exit(3); });
  std::array<int, 2> answer{};
  ASSERT_EQ(pipe(answer.data()), 0);
  const pid_t other = fork();
  if (other == 0) {
    if (setuid(65534) != 0) _exit(1);
    auto watcher = ExitWatcher::Watch(child.pid(), {.use_pidfd = false});
    child.Start();
    pollfd end{watcher->fd(), POLLIN, 0};
    poll(&end, 1, 10'000);
    const auto how = watcher->Check();
    const int reason = how.has_value() ? static_cast<int>(how->reason) : -1;
    (void)!write(answer[1], &reason, sizeof(reason));
    _exit(0);
  }
  int reason = -2;
  EXPECT_EQ(read(answer[0], &reason, sizeof(reason)), static_cast<ssize_t>(sizeof(reason)));
  EXPECT_EQ(reason, static_cast<int>(HowItEnded::Reason::kUnknown));
  waitpid(other, nullptr, 0);
  close(answer[0]);
  close(answer[1]);
}

TEST(ExitWatcher, AProcessThatIsNotThereIsNotFound) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  const auto watcher = ExitWatcher::Watch(gone);
  ASSERT_FALSE(watcher.ok());
  EXPECT_EQ(watcher.error().code, Code::kNotFound);
}

// A memory cgroup (version 1) with a limit, where we may make one.
class SmallCgroup {
 public:
  SmallCgroup() : folder_(FindFolder()) {
    if (folder_.empty() || mkdir(folder_.c_str(), 0755) != 0) return;
    made_ = true;
    std::ofstream(folder_ + "/memory.limit_in_bytes") << (16 << 20);
  }
  ~SmallCgroup() {
    const Deadline deadline = Deadline::AfterMs(5000);
    while (made_ && rmdir(folder_.c_str()) != 0 && !deadline.passed()) SleepUs(1000);
  }
  bool usable() const {
    std::ifstream limit(folder_ + "/memory.limit_in_bytes");
    std::int64_t bytes = 0;
    return made_ && limit >> bytes && bytes == 16 << 20;
  }
  void Enter() const { std::ofstream(folder_ + "/cgroup.procs") << getpid(); }

 private:
  static std::string FindFolder() {
    const CgroupFolders own = FindCgroups(getpid());
    if (own.memory.empty() || own.memory_is_v2) return "";
    return own.memory.front() + "/probing_exit_watcher_test_" + std::to_string(getpid());
  }
  std::string folder_;
  bool made_ = false;
};

[[noreturn]] void EatMemory() {
  std::vector<char*> kept;
  while (true) {
    char* block = static_cast<char*>(std::malloc(1 << 20));
    for (int i = 0; block != nullptr && i < 1 << 20; i += 4096) block[i] = 1;
    kept.push_back(block);
  }
}

class OutOfMemory : public testing::TestWithParam<bool> {};

TEST_P(OutOfMemory, AKillByTheKernelIsOom) {
  const SmallCgroup cgroup;
  if (!cgroup.usable()) GTEST_SKIP() << "no memory cgroup of version 1 can be made here";
  std::array<int, 2> entered{};
  ASSERT_EQ(pipe(entered.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    cgroup.Enter();
    (void)!write(entered[1], "x", 1);
    kill(getpid(), SIGSTOP);
    EatMemory();
  }
  char byte = 0;
  ASSERT_EQ(read(entered[0], &byte, 1), 1);
  auto watcher = ExitWatcher::Watch(child, {.use_kernel_log = GetParam()});
  ASSERT_TRUE(watcher.ok());
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  kill(child, SIGCONT);
  pollfd end{watcher->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 30'000), 1);
  const auto how = watcher->Check();
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(how.has_value());
  EXPECT_EQ(how->reason, HowItEnded::Reason::kOom);
  EXPECT_EQ(how->signal, SIGKILL);
  const bool is_logged = GetParam() && KernelLog::FromNow().has_value();
  EXPECT_NE(how->message.find(is_logged ? "Killed process " + std::to_string(child) : "control group"),
            std::string::npos)
      << how->message;
  close(entered[0]);
  close(entered[1]);
}
INSTANTIATE_TEST_SUITE_P(ExitWatcher, OutOfMemory, testing::Bool(),
                         [](const auto& test) { return test.param ? "ByTheLog" : "ByTheCounter"; });

TEST(KernelLog, OnlyTheNamedProcessIsMeant) {
  const char* record =
      "3,1234,567890,-;Memory cgroup out of memory: Killed process 17 (py\x01thon) total-vm:1kB\n "
      "SUBSYSTEM=x\n";
  EXPECT_EQ(OomKillIn(record, 17), "Memory cgroup out of memory: Killed process 17 (py thon) total-vm:1kB");
  EXPECT_EQ(OomKillIn(record, 1), std::nullopt);
  EXPECT_EQ(OomKillIn("3,1,2,-;Out of memory: Killed process 171 (x)", 17), std::nullopt);
  EXPECT_EQ(OomKillIn("3,1,2,-;Out of memory: Killed process 17, UID 0", 17),
            "Out of memory: Killed process 17, UID 0");
  EXPECT_EQ(OomKillIn("", 17), std::nullopt);
  EXPECT_EQ(OomKillIn(";", 17), std::nullopt);
}

TEST(ExitWatcher, SignalsHaveTheirNames) {
  EXPECT_EQ(SignalName(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(SignalName(SIGRTMIN + 3), "SIGRTMIN+3");
  EXPECT_EQ(SignalName(99), "signal 99");
}

}  // namespace
}  // namespace probing::observe
