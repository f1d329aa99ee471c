#include "observe/host/host_series.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "observe/host/crash_event.h"
#include "observe/host/process_table.h"
#include "observe/host/ring_rows.h"
#include "table/registry.h"

namespace probing::observe {
namespace {

HostSeriesOptions WithoutDevices() {
  return {.gpu = {.nvml_library = "/nonexistent",
                  .amdsmi_library = "/nonexistent",
                  .dcmi_library = "/nonexistent",
                  .npu_smi = "/nonexistent",
                  .sys_root = "/nonexistent"}};
}

std::unique_ptr<ring::Arena> MakeArena() {
  auto arena = ring::Arena::Create({});
  EXPECT_TRUE(arena.ok());
  return std::move(*arena);
}

TEST(HostSeries, EveryTickIsARowAndTheFirstHasNoRates) {
  const auto arena = MakeArena();
  HostSeries series(WithoutDevices());
  ASSERT_TRUE(series.Add(getpid(), *arena, {.python_memory = true}).ok());
  const std::int64_t before = WallNs();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(series.Tick().empty());
    SleepUs(20'000);
  }
  const auto cpu = ReadRows(*arena, "system.cpu");
  ASSERT_EQ(cpu.size(), 3U);
  EXPECT_EQ(cpu[0].at("cpu_percent"), std::nullopt);
  EXPECT_EQ(cpu[0].at("host_percent"), std::nullopt);
  EXPECT_NE(cpu[1].at("cpu_percent"), std::nullopt);
  EXPECT_GE(std::stoll(*cpu[0].at("timestamp")), before);
  EXPECT_LE(std::stoll(*cpu[2].at("timestamp")), WallNs());

  const auto memory = ReadRows(*arena, "system.memory");
  ASSERT_EQ(memory.size(), 3U);
  const auto python = ReadRows(*arena, "python.memory");
  ASSERT_EQ(python.size(), 3U);
  EXPECT_EQ(python[1].at("rss"), memory[1].at("rss"));
  EXPECT_EQ(std::stoll(*python[1].at("heap")),
            std::stoll(*memory[1].at("rss")) - std::stoll(*memory[1].at("shared")));
  EXPECT_EQ(python[1].at("blocks"), std::nullopt);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t used = std::stoll(*memory[2].at("host_used"));
  const std::int64_t available = std::stoll(*memory[2].at("host_available"));
  const auto total = static_cast<double>(sysconf(_SC_PHYS_PAGES) * page);
  EXPECT_NEAR(static_cast<double>(used + available), total, total / 100);
  EXPECT_EQ(ReadRows(*arena, "system.io").size(), 3U);

  const auto threads = ReadRows(*arena, "system.threads");
  ASSERT_FALSE(threads.empty());
  EXPECT_EQ(threads[0].at("tid"), std::to_string(getpid()));
  EXPECT_EQ(threads[0].at("state"), "running");
  EXPECT_EQ(threads[0].at("wait_channel"), std::nullopt);
  EXPECT_TRUE(ReadRows(*arena, "system.gpu").empty());
}

TEST(HostSeries, SleepingThreadsGetARowNowAndThen) {
  std::atomic<bool> stop{false};
  std::atomic<pid_t> tid{0};
  std::thread sleeper([&] {
    pthread_setname_np(pthread_self(),
                       "sl\xff"
                       "eeper");
    tid = static_cast<pid_t>(syscall(SYS_gettid));
    stop.wait(false);
  });
  while (tid == 0) SleepUs(1000);
  const std::string stat = "/proc/self/task/" + std::to_string(tid) + "/stat";
  const auto is_asleep = [&stat] {
    const Result<std::string> text = ReadFile(stat);
    return text.ok() && text->find(") S ") != std::string::npos;
  };
  while (!is_asleep()) SleepUs(1000);
  const auto arena = MakeArena();
  HostSeries series(WithoutDevices());
  ASSERT_TRUE(series.Add(getpid(), *arena, {.quiet_every = 5}).ok());
  for (int i = 0; i < 15; ++i) {
    series.Tick();
    SleepUs(5000);
  }
  int rows = 0;
  for (const TextRow& row : ReadRows(*arena, "system.threads")) {
    if (row.at("tid") != std::to_string(tid)) continue;
    ++rows;
    EXPECT_EQ(row.at("name"),
              "sl\xEF\xBF\xBD"
              "eeper")
        << "not UTF-8, so repaired";
    EXPECT_EQ(row.at("state"), "sleeping");
    EXPECT_NE(row.at("wait_channel"), "");
  }
  EXPECT_GE(rows, 3);
  EXPECT_LE(rows, 5) << "ticks 0, 5 and 10";
  stop = true;
  stop.notify_all();
  sleeper.join();
}

TEST(HostSeries, ATargetThatEndedIsReportedOnceAndKeepsItsRows) {
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  const auto arena = MakeArena();
  HostSeries series(WithoutDevices());
  ASSERT_TRUE(series.Add(child, *arena).ok());
  EXPECT_TRUE(series.Tick().empty());
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // it stays a zombie
  EXPECT_EQ(series.Tick(), std::vector<pid_t>{child});
  EXPECT_TRUE(series.Tick().empty());
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ReadRows(*arena, "system.cpu").size(), 1U);
  EXPECT_EQ(series.Add(child, *arena).error().code, Code::kNotFound);
}

TEST(HostSeries, AGpuHasARowForTheTargetThatUsesIt) {
  void* stand_in = dlopen(PROBING_NVML_STAND_IN, RTLD_NOW);
  ASSERT_NE(stand_in, nullptr);
  const pid_t other = fork();
  if (other == 0) {
    while (true) pause();
  }
  *static_cast<unsigned*>(dlsym(stand_in, "stand_in_pid")) = static_cast<unsigned>(getpid());
  const auto user = MakeArena();
  const auto idle = MakeArena();
  {
    HostSeriesOptions options = WithoutDevices();
    options.gpu.nvml_library = PROBING_NVML_STAND_IN;
    HostSeries series(options);
    ASSERT_TRUE(series.Add(getpid(), *user).ok());
    ASSERT_TRUE(series.Add(other, *idle).ok());
    const Deadline deadline = Deadline::AfterMs(10'000);
    while (ReadRows(*user, "system.gpu").empty() && !deadline.passed()) {
      series.Tick();
      SleepUs(5000);
    }
  }
  const auto rows = ReadRows(*user, "system.gpu");
  ASSERT_FALSE(rows.empty());
  for (const TextRow& row : rows) EXPECT_EQ(row.at("device"), "0") << "it does not use the other one";
  EXPECT_EQ(rows[0].at("process_memory"), std::to_string(1 << 30));
  EXPECT_EQ(rows[0].at("power"), "325.500000");
  EXPECT_EQ(rows[0].at("vendor"), "nvidia");
  EXPECT_EQ(rows[0].at("process_util_percent"), "50.000000");
  const auto health = ReadRows(*user, "gpu.health");
  ASSERT_FALSE(health.empty()) << "the first look has it";
  for (const TextRow& row : health) EXPECT_EQ(row.at("device"), "0");
  EXPECT_EQ(health[0].at("throttle_reasons"), "sw_power_cap");
  const auto processes = ReadRows(*idle, "gpu.processes");
  ASSERT_GE(processes.size(), 2U);
  EXPECT_EQ(processes[0].at("process"), std::to_string(getpid()));
  EXPECT_EQ(processes[0].at("is_target"), "0");
  EXPECT_EQ(ReadRows(*user, "gpu.processes").at(0).at("is_target"), "1");
  const auto idle_rows = ReadRows(*idle, "system.gpu");
  ASSERT_GE(idle_rows.size(), 2U) << "it uses none, so all are shown";
  EXPECT_EQ(idle_rows[0].at("process_memory"), std::nullopt);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  dlclose(stand_in);
}

TEST(CrashEvent, ARowSaysHowItEnded) {
  const auto arena = MakeArena();
  HowItEnded how{.reason = HowItEnded::Reason::kSignal, .signal = SIGSEGV, .noticed_ns = 5};
  ASSERT_TRUE(
      WriteCrashEvent(*arena, how, {.name = "python", .cmdline = "python a.py", .last_step = 7}).ok());
  how = {.reason = HowItEnded::Reason::kExit, .exit_code = 1};
  ASSERT_TRUE(WriteCrashEvent(*arena, how, {.started_ns = 3, .exception = "ValueError: no"}).ok());
  ASSERT_TRUE(WriteCrashEvent(*arena, HowItEnded{}, {.exception = "ValueError: no"}).ok());
  const auto rows = ReadRows(*arena, "crash.events");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].at("reason"), "signal");
  EXPECT_EQ(rows[0].at("signal"), "SIGSEGV");
  EXPECT_EQ(rows[0].at("exit_code"), std::nullopt);
  EXPECT_EQ(rows[0].at("last_step"), "7");
  EXPECT_EQ(rows[0].at("cmdline"), "python a.py");
  EXPECT_EQ(rows[1].at("reason"), "exception");
  EXPECT_EQ(rows[1].at("exit_code"), "1");
  EXPECT_EQ(rows[1].at("message"), "ValueError: no");
  EXPECT_EQ(rows[1].at("started"), "3");
  EXPECT_EQ(rows[2].at("reason"), "unknown");
}

// The value of a column in the row about `pid`.
table::Value ProcessValue(pid_t root, pid_t pid, std::string_view name) {
  const auto columns = table::FindTable("system.process")->columns;
  std::size_t index = 0;
  while (columns[index].name != name) ++index;
  const table::Rows rows = ReadProcesses(root, {0, index});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows.at(0, r) == table::Value(std::int64_t{pid})) return rows.at(1, r);
  }
  return {};
}

TEST(ProcessTable, TheTreeAndItsNumbers) {
#ifdef PROBING_TSAN
  GTEST_SKIP() << "the sanitizer has a thread of its own in every process";
#endif
  ASSERT_EQ(table::FindTable("system.process")->columns[0].name, "pid");
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const std::int64_t before = WallNs();
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 10; ++i) (void)!dup(0);
    (void)!write(ready[1], "x", 1);
    while (true) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const pid_t self = getpid();
  EXPECT_EQ(ProcessValue(self, child, "ppid"), table::Value(std::int64_t{self}));
  EXPECT_EQ(ProcessValue(self, child, "threads"), table::Value(std::int64_t{1}));
  EXPECT_EQ(ProcessValue(self, self, "state"), table::Value(std::string("running")));
  const auto started = std::get<std::int64_t>(ProcessValue(self, child, "started"));
  EXPECT_NEAR(static_cast<double>(started), static_cast<double>(before), 2e9);
  const auto own_files = std::get<std::int64_t>(ProcessValue(self, self, "fds"));
  const auto child_files = std::get<std::int64_t>(ProcessValue(self, child, "fds"));
  EXPECT_NEAR(static_cast<double>(child_files - own_files), 10, 2) << "one is open while it is counted";
  EXPECT_GT(std::get<std::int64_t>(ProcessValue(self, self, "rss")), 1 << 20);
  EXPECT_GE(std::get<double>(ProcessValue(self, self, "cpu_percent")), 0)
      << "it may have run for less than a tick";
  const char* user = getuid() == 0 ? "root" : getenv("USER");
  if (user != nullptr) {
    EXPECT_EQ(ProcessValue(self, self, "user"), table::Value(std::string(user)));
  }
  EXPECT_NE(std::get<std::string>(ProcessValue(self, self, "cmdline")).find("observe_test"),
            std::string::npos);
  // Every declared column is one that the reader knows.
  for (const table::Column& column : table::FindTable("system.process")->columns) {
    EXPECT_NE(ProcessValue(self, self, column.name), table::Value()) << column.name;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ReadProcesses(child, {0}).size(), 0U);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace probing::observe
