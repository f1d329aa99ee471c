#include "observe/host/process_table.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "observe/host/proc_text.h"
#include "observe/stacks/descendants.h"
#include "process/status.h"
#include "process/thread_status.h"
#include "table/registry.h"

namespace probing::observe {
namespace {

// When the host was started, in wall time. Asked once, so that a process keeps its start while the clock is
// adjusted. Finer than btime of /proc/stat, which has seconds.
std::int64_t BootTimeNs() {
  static const std::int64_t boot_ns = WallNs() - ReadClockNs(CLOCK_BOOTTIME);
  return boot_ns;
}

table::Value ToValue(Number number) { return number.has_value() ? table::Value(*number) : table::Value(); }

std::string UserName(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(uid);
}

// Reads each file at most once, and only when a column asks for it.
class ProcessReader {
 public:
  ProcessReader(pid_t pid, const std::string& proc_root)
      : pid_(pid), proc_root_(proc_root), folder_(proc_root + "/" + std::to_string(pid) + "/") {}

  // false: it is gone.
  bool Open() {
    auto text = ReadFile(folder_ + "stat");
    if (!text.ok()) return false;
    stat_text_ = std::move(*text);
    const auto stat = ParseTaskStat(stat_text_);
    if (stat.has_value()) stat_ = *stat;
    return stat.has_value();
  }

  table::Value Get(std::string_view column) {
    if (column == "pid") return static_cast<std::int64_t>(pid_);
    if (column == "name") return std::string(stat_.name);
    if (column == "cmdline") return process::CommandLine(pid_, proc_root_);
    if (column == "state") return std::string(process::StateWord(stat_.state));
    if (column == "ppid") return ToValue(stat_.ppid());
    if (column == "user") return User();
    if (column == "started") return ToValue(Plus(BootTimeNs(), StartNs()));
    if (column == "threads") return ToValue(stat_.threads());
    if (column == "cpu_percent") return CpuPercent();
    if (column == "rss") return ToValue(Times(stat_.fields[24], PageSize()));
    if (column == "vms") return ToValue(stat_.fields[23]);
    if (column == "fds") return ToValue(CountFiles());
    if (column == "read_bytes" || column == "write_bytes") return ToValue(Io(column));
    return {};
  }

 private:
  Number StartNs() const { return Times(stat_.start_ticks(), 1'000'000'000 / TicksPerSecond()); }

  table::Value User() const {
    struct stat info{};
    // The owner of the folder is the effective user, or root when the process may not be dumped.
    if (::stat(folder_.c_str(), &info) != 0) return {};
    const auto status = process::ReadStatus(pid_, proc_root_);
    return UserName(status.ok() ? status->effective_uid : info.st_uid);
  }

  table::Value CpuPercent() const {
    const Number cpu_ns =
        Times(Plus(stat_.user_ticks(), stat_.system_ticks()), 1'000'000'000 / TicksPerSecond());
    const Number start_ns = StartNs();
    if (!cpu_ns.has_value() || !start_ns.has_value()) return {};
    const std::int64_t age_ns = ReadClockNs(CLOCK_BOOTTIME) - *start_ns;
    if (age_ns <= 0) return {};
    return 100.0 * static_cast<double>(*cpu_ns) / static_cast<double>(age_ns);
  }

  Number CountFiles() const {
    struct stat info{};
    // The size of the folder is the number since Linux 6.2; before, it is 0.
    if (proc_root_ == "/proc" && ::stat((folder_ + "fd").c_str(), &info) == 0 && info.st_size > 0) {
      // Without the right to look the folder cannot be listed, and its size is still told.
      return static_cast<std::int64_t>(info.st_size);
    }
    const auto names = ListDirectory(folder_ + "fd");
    return names.ok() ? Number(static_cast<std::int64_t>(names->size())) : Number();
  }

  Number Io(std::string_view column) {
    if (!io_.has_value()) {
      auto text = ReadFile(folder_ + "io");
      io_ = text.ok() ? std::move(*text) : std::string();
    }
    return FindNumber(*io_, std::string(column) + ":");
  }

  const pid_t pid_;
  const std::string proc_root_;
  const std::string folder_;
  std::string stat_text_;
  TaskStat stat_;
  std::optional<std::string> io_;
};

const table::Table& Declared() {
  static const table::Table* const declared = table::FindTable("system.process");
  return *declared;
}

}  // namespace

std::int64_t StartedWallNs(std::uint64_t start_ticks) {
  return BootTimeNs() + static_cast<std::int64_t>(start_ticks) * (1'000'000'000 / TicksPerSecond());
}

table::Rows ReadProcesses(pid_t pid, const std::vector<std::size_t>& columns, const std::string& proc_root) {
  table::Rows rows(table::TypesOf(Declared(), columns));
  std::vector<pid_t> pids = FindDescendants(pid, proc_root);
  pids.insert(pids.begin(), pid);
  for (const pid_t one : pids) {
    ProcessReader reader(one, proc_root);
    if (!reader.Open()) continue;
    std::vector<table::Value> row;
    row.reserve(columns.size());
    for (const std::size_t column : columns) row.push_back(reader.Get(Declared().columns[column].name));
    rows.Add(std::move(row));
  }
  return rows;
}

std::unique_ptr<table::Source> MakeProcessSource(const std::string& proc_root) {
  return table::MakeRowsSource(
      {.table = &Declared(),
       .make = [proc_root](const table::Target* target,
                           const std::vector<std::size_t>& columns) -> Result<table::Rows> {
         return ReadProcesses(static_cast<pid_t>(target->pid), columns, proc_root);
       }});
}

}  // namespace probing::observe
