#include "observe/host/target_watch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "observe/host/fake_proc.h"
#include "observe/host/host_watch.h"

namespace probing::observe {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

class FakeTarget : public testing::Test {
 protected:
  void SetUp() override {
    proc_.WriteStat("7", "py (x) thon", 'S', 100, 50);
    proc_.WriteStat("7/task/7", "main", 'S', 100, 50);
    proc_.Write("7/task/7/schedstat", "1000000000 5 10\n");
    proc_.Write("7/task/7/status", "voluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t2\n");
    proc_.Write("7/task/7/wchan", "futex_wait");
    proc_.Write("7/statm", "2000 1000 300 1 0 400 0\n");
    proc_.Write("7/status", "Name:\tx\nVmSwap:\t      12 kB\n");
    proc_.Write("7/io", "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 0\n");
    proc_.Write("7/net/dev",
                "Inter-| Receive\n face |bytes packets\n  lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                "eth0:1000 10 1 2 0 0 0 0 500 5 3 4 0 0 0 0\n");
    proc_.Write("7/task/7/children", "");
  }
  FakeProc proc_;
  FileBudget budget_{100};
};

TEST_F(FakeTarget, TheFirstLookHasNoRatesAndTheSecondHas) {
  auto watch = TargetWatch::Open(7, &budget_, proc_.root());
  ASSERT_TRUE(watch.ok());
  auto look = (*watch)->Look(0);
  ASSERT_TRUE(look.ok());
  EXPECT_FALSE(look->cpu_percent.has_value());
  EXPECT_FALSE(look->children_percent.has_value());
  EXPECT_FALSE(look->voluntary_switches.has_value());
  EXPECT_FALSE(look->read_bytes.has_value());
  EXPECT_FALSE(look->threads.at(0)->cpu_percent.has_value());
  EXPECT_EQ(look->rss, 1000 * PageSize());
  EXPECT_EQ(look->vms, 2000 * PageSize());
  EXPECT_EQ(look->shared, 300 * PageSize());
  EXPECT_EQ(look->swap, 12 * 1024);

  proc_.WriteStat("7", "py (x) thon", 'S', 150, 60);
  proc_.WriteStat("7/task/7", "main", 'S', 150, 60);
  proc_.Write("7/task/7/schedstat", "1250000000 5 14\n");
  proc_.Write("7/task/7/status", "voluntary_ctxt_switches:\t14\nnonvoluntary_ctxt_switches:\t2\n");
  proc_.Write("7/io", "syscr: 13\nsyscw: 4\nread_bytes: 8192\nwrite_bytes: 100\n");
  proc_.Write("7/net/dev", "eth0:3000 30 1 2 0 0 0 0 600 6 3 5 0 0 0 0\n");
  look = (*watch)->Look(kSecond);
  ASSERT_TRUE(look.ok());
  EXPECT_DOUBLE_EQ(*look->user_percent, 50);
  EXPECT_DOUBLE_EQ(*look->system_percent, 10);
  EXPECT_DOUBLE_EQ(*look->cpu_percent, 60);
  EXPECT_EQ(look->major_faults, 250);
  EXPECT_EQ(look->voluntary_switches, 4);
  EXPECT_EQ(look->involuntary_switches, 0);
  EXPECT_EQ(look->read_bytes, 4096);
  EXPECT_EQ(look->write_bytes, 100);
  EXPECT_EQ(look->read_calls, 10);
  const ThreadLook& thread = *look->threads.at(0);
  EXPECT_EQ(thread.name, "main");
  EXPECT_DOUBLE_EQ(*thread.cpu_percent, 25);
  EXPECT_EQ(thread.core, 3);
  EXPECT_EQ(thread.wait_channel, "futex_wait");
  ASSERT_EQ(look->interfaces.size(), 1U);
  EXPECT_EQ(look->interfaces[0].name, "eth0");
  EXPECT_EQ(look->interfaces[0].received_bytes, 2000);
  EXPECT_EQ(look->interfaces[0].sent_packets, 1);
  EXPECT_EQ(look->interfaces[0].errors, 1);
}

TEST_F(FakeTarget, AThreadThatDidNotRunIsNotReadAgain) {
  auto watch = TargetWatch::Open(7, &budget_, proc_.root());
  ASSERT_TRUE((*watch)->Look(0).ok());
  proc_.WriteStat("7/task/7", "another name", 'R', 999, 999);
  const auto look = (*watch)->Look(kSecond);
  ASSERT_TRUE(look.ok());
  EXPECT_FALSE(look->threads.at(0)->has_run);
  EXPECT_EQ(look->threads.at(0)->name, "main");
  EXPECT_EQ(*look->threads.at(0)->cpu_percent, 0);
}

TEST_F(FakeTarget, OfManyBusyThreadsTheBusiestAreReadInDetail) {
  constexpr int kThreads = 100;
  const auto write = [&](int scale) {
    for (int tid = 100; tid < 100 + kThreads; ++tid) {
      const std::string folder = "7/task/" + std::to_string(tid);
      proc_.WriteStat(folder, "t" + std::to_string(tid), 'S', 1, 1);
      proc_.Write(folder + "/schedstat",
                  std::to_string(scale * tid * 1'000'000) + " 0 " + std::to_string(scale) + "\n");
      proc_.Write(folder + "/status", "voluntary_ctxt_switches:\t" + std::to_string(scale) + "\n");
    }
  };
  write(1);
  FileBudget budget(1000);
  auto watch = TargetWatch::Open(7, &budget, proc_.root());
  auto look = (*watch)->Look(0);
  ASSERT_TRUE(look.ok());
  for (const ThreadLook* thread : look->threads)
    EXPECT_TRUE(thread->has_details) << "names are wanted of all";
  write(2);
  look = (*watch)->Look(kSecond);
  ASSERT_TRUE(look.ok());
  int detailed = 0;
  for (const ThreadLook* thread : look->threads) {
    if (thread->tid == 7) continue;
    EXPECT_EQ(thread->name, "t" + std::to_string(thread->tid));
    EXPECT_DOUBLE_EQ(*thread->cpu_percent, thread->tid / 10.0);
    EXPECT_EQ(thread->has_details, thread->voluntary_switches == 1);
    detailed += thread->has_details ? 1 : 0;
    if (thread->tid >= 190) {
      EXPECT_TRUE(thread->has_details);
    }
    if (thread->tid < 110) {
      EXPECT_FALSE(thread->has_details);
    }
  }
  EXPECT_GT(detailed, 10);
  EXPECT_LT(detailed, kThreads);
  EXPECT_EQ(look->voluntary_switches, std::nullopt) << "a sum without some of them would be wrong";
}

TEST_F(FakeTarget, WithoutSchedstatTicksAreUsed) {
  std::filesystem::remove(proc_.root() + "/7/task/7/schedstat");
  auto watch = TargetWatch::Open(7, &budget_, proc_.root());
  ASSERT_TRUE((*watch)->Look(0).ok());
  proc_.WriteStat("7/task/7", "main", 'S', 130, 60);
  const auto look = (*watch)->Look(kSecond);
  ASSERT_TRUE(look.ok());
  EXPECT_DOUBLE_EQ(*look->threads.at(0)->cpu_percent, 40);
}

TEST_F(FakeTarget, AnEmptyBudgetGivesTheSameAnswers) {
  FileBudget none(0);
  auto watch = TargetWatch::Open(7, &none, proc_.root());
  ASSERT_TRUE((*watch)->Look(0).ok());
  proc_.WriteStat("7", "x", 'S', 200, 50);
  const auto look = (*watch)->Look(kSecond);
  ASSERT_TRUE(look.ok());
  EXPECT_DOUBLE_EQ(*look->user_percent, 100);
  EXPECT_EQ(none.left(), 0);
}

TEST_F(FakeTarget, TheBudgetComesBack) {
  {
    auto watch = TargetWatch::Open(7, &budget_, proc_.root());
    ASSERT_TRUE((*watch)->Look(0).ok());
    EXPECT_EQ(budget_.left(), 100) << "what is read once is not kept";
    ASSERT_TRUE((*watch)->Look(kSecond).ok());
    EXPECT_LT(budget_.left(), 100);
  }
  EXPECT_EQ(budget_.left(), 100);
}

TEST_F(FakeTarget, GarbageGivesNoNumbersAndNoHarm) {
  const std::string garbage[] = {"",
                                 "\n\n\n",
                                 ")",
                                 "()",
                                 "17 (",
                                 "17 () ",
                                 std::string(100'000, '9'),
                                 std::string(9000, '\0'),
                                 "17 (x) S 99999999999999999999999 -5 -7",
                                 "a:b:c:\n::::\n: : :\n"};
  for (const std::string& text : garbage) {
    for (const char* file :
         {"7/task/7/stat", "7/task/7/schedstat", "7/task/7/status", "7/task/7/wchan", "7/statm", "7/status",
          "7/io", "7/net/dev", "7/cgroup", "self/mountinfo", "stat", "meminfo"}) {
      proc_.Write(file, text);
    }
    auto watch = TargetWatch::Open(7, &budget_, proc_.root());
    ASSERT_TRUE(watch.ok());
    HostWatch host(&budget_, proc_.root());
    for (int i = 0; i < 3; ++i) {
      const auto look = (*watch)->Look(kSecond);
      ASSERT_TRUE(look.ok());
      EXPECT_EQ(look->rss, std::nullopt);
      EXPECT_EQ(host.Look(kSecond).memory_total, std::nullopt);
    }
    proc_.Write("7/stat", text);
    auto ended = TargetWatch::Open(7, &budget_, proc_.root());
    const auto look = (*ended)->Look(kSecond);
    if (look.ok()) {
      EXPECT_EQ(look->cpu_percent, std::nullopt);
    }
    proc_.WriteStat("7", "x", 'S', 1, 1);
  }
}

TEST_F(FakeTarget, CountersThatFallGiveNoRate) {
  auto watch = TargetWatch::Open(7, &budget_, proc_.root());
  ASSERT_TRUE((*watch)->Look(0).ok());
  proc_.WriteStat("7", "x", 'S', 1, 1);
  const auto look = (*watch)->Look(kSecond);
  ASSERT_TRUE(look.ok());
  EXPECT_EQ(look->cpu_percent, std::nullopt);
}

TEST_F(FakeTarget, LimitsOfControlGroupsOfBothVersions) {
  const std::string mounts = proc_.root() + "/cg";
  proc_.Write("7/cgroup", "4:memory:/jobs/a\n1:cpu,cpuacct:/\n0::/\n");
  proc_.Write("self/mountinfo", "1 0 0:1 / " + mounts + "/mem rw - cgroup cgroup rw,memory\n2 0 0:2 / " +
                                    mounts + "/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  proc_.Write("cg/mem/jobs/a/memory.limit_in_bytes", "9223372036854771712\n");
  proc_.Write("cg/mem/jobs/memory.limit_in_bytes", "1000000\n");
  proc_.Write("cg/mem/jobs/memory.usage_in_bytes", "777\n");
  proc_.Write("cg/mem/jobs/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
  CgroupFolders folders = FindCgroups(7, proc_.root());
  EXPECT_EQ(ReadMemoryLimit(folders).limit_bytes, 1'000'000);
  EXPECT_EQ(ReadMemoryLimit(folders).used_bytes, 777);
  EXPECT_EQ(ReadOomKills(folders), 3);
  proc_.Write("cg/cpu/cpu.stat", "nr_periods 1\nthrottled_time 5000000\n");
  auto watch = TargetWatch::Open(7, &budget_, proc_.root());
  ASSERT_TRUE((*watch)->Look(0).ok());
  proc_.Write("cg/cpu/cpu.stat", "nr_periods 1\nthrottled_time 7500000\n");
  EXPECT_DOUBLE_EQ(*(*watch)->Look(kSecond)->throttled_ms, 2.5);

  proc_.Write("7/cgroup", "0::/box/job\n");
  proc_.Write("self/mountinfo", "1 0 0:1 /box " + mounts + "/two rw - cgroup2 cgroup2 rw\n");
  proc_.Write("cg/two/job/memory.max", "max\n");
  proc_.Write("cg/two/job/memory.current", "55\n");
  proc_.Write("cg/two/job/memory.events", "low 0\noom 1\noom_kill 2\n");
  proc_.Write("cg/two/job/cpu.stat", "usage_usec 9\nthrottled_usec 11\n");
  folders = FindCgroups(7, proc_.root());
  EXPECT_EQ(ReadMemoryLimit(folders).limit_bytes, std::nullopt);
  EXPECT_EQ(ReadMemoryLimit(folders).used_bytes, 55);
  EXPECT_EQ(ReadOomKills(folders), 2);
  std::string scratch;
  EXPECT_EQ(ThrottledTime(folders, &budget_).Read(scratch), 11'000);
}

TEST_F(FakeTarget, TheHostsShareAndPressure) {
  proc_.Write("stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n");
  proc_.Write("meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n");
  proc_.Write("pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull total=5\n");
  HostWatch host(&budget_, proc_.root());
  HostLook look = host.Look(0);
  EXPECT_FALSE(look.cpu_percent.has_value());
  EXPECT_EQ(look.memory_used, 400 * 1024);
  EXPECT_EQ(look.memory_available, 600 * 1024);
  proc_.Write("stat", "cpu  150 0 100 850 100 0 0 0 0 0\n");
  proc_.Write("pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\n");
  look = host.Look(kSecond);
  EXPECT_DOUBLE_EQ(*look.cpu_percent, 25);
  EXPECT_DOUBLE_EQ(*look.memory_pressure_percent, 25);
  EXPECT_EQ(look.io_pressure_percent, std::nullopt);
}

std::int64_t OwnCpuNs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * kSecond +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

TEST(RealTarget, TheNumbersAgreeWithThoseOfTheKernelsOtherCalls) {
  FileBudget budget(100);
  auto watch = TargetWatch::Open(getpid(), &budget);
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE((*watch)->Look(0).ok());
  const std::int64_t cpu_before = OwnCpuNs();
  const std::int64_t before = MonotonicNs();
  rusage switches_before{};
  getrusage(RUSAGE_SELF, &switches_before);
  while (OwnCpuNs() - cpu_before < kSecond / 5) {
  }
  for (int i = 0; i < 20; ++i) SleepUs(100);
  const std::int64_t interval = MonotonicNs() - before;
  const auto look = (*watch)->Look(interval);
  const double percent = 100.0 * static_cast<double>(OwnCpuNs() - cpu_before) / static_cast<double>(interval);
  ASSERT_TRUE(look.ok());
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  const double tick_percent = 100.0 * 1e7 / static_cast<double>(interval);
  EXPECT_NEAR(*look->cpu_percent, percent, 4 * tick_percent);
  EXPECT_GE(*look->voluntary_switches, 20);
  EXPECT_LE(*look->voluntary_switches, after.ru_nvcsw - switches_before.ru_nvcsw + 1);
  EXPECT_LT(*look->rss, after.ru_maxrss * 1024 * 5 / 4) << "the kernel counts both a little late";
  EXPECT_GT(*look->rss, after.ru_maxrss * 1024 / 4);
  EXPECT_GT(*look->vms, *look->rss);
  const auto own = std::find_if(look->threads.begin(), look->threads.end(),
                                [](const ThreadLook* thread) { return thread->tid == getpid(); });
  ASSERT_NE(own, look->threads.end());
  EXPECT_EQ((*own)->state, 'R');
  EXPECT_NEAR(*(*own)->cpu_percent, percent, 2 * tick_percent);
}

TEST(RealTarget, ThreadsComeAndGo) {
#ifdef PROBING_TSAN
  GTEST_SKIP() << "the sanitizer has a thread of its own in every process";
#endif
  FileBudget budget(100);
  auto watch = TargetWatch::Open(getpid(), &budget);
  const std::size_t before = (*watch)->Look(0)->threads.size();
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) SleepUs(1000);
  });
  EXPECT_EQ((*watch)->Look(kSecond)->threads.size(), before + 1);
  stop = true;
  thread.join();
  EXPECT_EQ((*watch)->Look(kSecond)->threads.size(), before);
}

TEST(RealTarget, ChildrenAreCountedAndAnEndIsNoticed) {
  const pid_t child = fork();
  if (child == 0) {
    const bool is_busy = fork() == 0;
    for (volatile int i = 0; true; i = i + 1) {
      if (!is_busy) pause();
    }
  }
  FileBudget budget(100);
  auto watch = TargetWatch::Open(child, &budget);
  ASSERT_TRUE(watch.ok());
  const Deadline deadline = Deadline::AfterMs(10'000);
  double most = 0;
  std::int64_t rss = 0;
  while (most == 0 && !deadline.passed()) {
    const auto look = (*watch)->Look(kSecond / 50);
    ASSERT_TRUE(look.ok());
    most = std::max(most, look->children_percent.value_or(0));
    rss = std::max(rss, look->children_rss.value_or(0));
    SleepUs(20'000);
  }
  EXPECT_GT(most, 0);
  EXPECT_GT(rss, 0);
  ASSERT_FALSE((*watch)->children().empty());
  kill((*watch)->children().front(), SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto look = (*watch)->Look(kSecond);
  ASSERT_FALSE(look.ok());
  EXPECT_EQ(look.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace probing::observe
