// probing ps: the Python processes of this host, probed or not, and what each of them does. Needs no probe
// and no daemon: everything is read from outside.
#include "cli/ps.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/clock.h"
#include "base/file.h"
#include "base/stat_line.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/installation.h"
#include "cli/output.h"
#include "cpython/interpreter.h"
#include "process/job_identity.h"
#include "process/maps.h"
#include "process/status.h"
#include "process/thread_status.h"
#include "why/investigation.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kCpuUs = 200'000;  // how long the use of the processor is measured
constexpr std::size_t kCommandBytes = 60;

struct PythonProcess {
  pid_t pid = 0;
  process::JobIdentity job;
  std::string command, state, doing;
  std::uint64_t ticks = 0;  // of the processor, since it began
  double cpu_percent = 0;
  std::uint64_t rss_bytes = 0;
  bool is_probed = false;
};

std::string ReadStatText(pid_t pid) {
  Result<std::string> text = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  return text.ok() ? std::move(*text) : "";
}

std::uint64_t Ticks(const StatLine& stat) { return stat.Field(14).value_or(0) + stat.Field(15).value_or(0); }

// "train (train.py:40)": the innermost function of the user's own code in the main thread.
std::string WhatItDoes(pid_t pid) {
  auto interpreter = cpython::Interpreter::Attach(pid);
  if (!interpreter.ok()) return "";
  const auto snapshot = interpreter->Read({.attempts = 3, .kernel_names = false});
  if (!snapshot.ok()) return "";
  const auto main = std::ranges::find(snapshot->threads, pid, &cpython::Thread::tid);
  if (main == snapshot->threads.end()) return "";
  const cpython::Frame* frame = why::UserFrame(main->frames);
  if (frame == nullptr) return "";
  return frame->function + " (" + std::string(process::BaseName(frame->file)) + ":" +
         std::to_string(frame->line) + ")";
}

PythonProcess Describe(pid_t pid) {
  PythonProcess found{.pid = pid, .job = process::ReadJobIdentity(pid)};
  const std::string text = ReadStatText(pid);
  const StatLine stat(text);
  found.command = found.job.title.empty() ? process::ShortCommandLine(pid) : found.job.title;
  found.state = process::StateWord(stat.state());
  found.ticks = Ticks(stat);
  found.rss_bytes = stat.Field(24).value_or(0) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (const auto maps = process::Maps::Read(pid); maps.ok())
    found.is_probed = std::ranges::any_of(maps->all(), IsProbeLibrary);
  found.doing = WhatItDoes(pid);
  return found;
}

// Those that the user may look into, with their jobs side by side.
std::vector<PythonProcess> FindAll() {
  std::vector<PythonProcess> found;
  const std::int64_t began_ns = MonotonicNs();
  for (const pid_t pid : process::ListProcesses()) {
    if (process::RunsPython(pid)) found.push_back(Describe(pid));
  }
  const std::int64_t took_us = (MonotonicNs() - began_ns) / 1000;
  if (!found.empty() && took_us < kCpuUs) SleepUs(kCpuUs - took_us);
  const double seconds = static_cast<double>(MonotonicNs() - began_ns) / 1e9;
  std::erase_if(found, [&](PythonProcess& one) {
    const std::string text = ReadStatText(one.pid);
    const std::uint64_t ticks = Ticks(StatLine(text));
    if (text.empty() || ticks < one.ticks) return true;  // it has ended
    one.cpu_percent =
        100 * static_cast<double>(ticks - one.ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds;
    return false;
  });
  std::ranges::stable_sort(found, {}, [](const PythonProcess& one) {
    return std::tuple(one.job.JobName(), one.job.rank.value_or(-1), one.pid);
  });
  return found;
}

Json ToJson(const PythonProcess& one) {
  return {{"pid", one.pid},
          {"command", one.command},
          {"job", one.job.role == process::JobRole::kNone ? Json() : Json(one.job.job)},
          {"role", process::JobRoleName(one.job.role)},
          {"rank", one.job.rank ? Json(*one.job.rank) : Json()},
          {"probed", one.is_probed},
          {"state", one.state},
          {"cpu_percent", one.cpu_percent},
          {"rss", one.rss_bytes},
          {"doing", one.doing.empty() ? Json() : Json(one.doing)}};
}

std::string Rounded(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string ToText(const std::vector<PythonProcess>& all) {
  const bool has_jobs = std::ranges::any_of(
      all, [](const PythonProcess& one) { return one.job.role != process::JobRole::kNone; });
  std::vector<std::vector<std::string>> rows;
  for (const PythonProcess& one : all) {
    const std::string role = one.job.rank ? "rank " + std::to_string(*one.job.rank)
                                          : std::string(process::JobRoleName(one.job.role));
    std::vector<std::string> row{std::to_string(one.pid),
                                 one.is_probed ? Painted("yes", Colour::kGreen) : "no",
                                 Rounded(one.cpu_percent, "%.0f %%"),
                                 Rounded(static_cast<double>(one.rss_bytes) / 1048576, "%.0f MB"),
                                 one.state,
                                 OneLine(one.command, kCommandBytes),
                                 OneLine(one.doing, kCommandBytes)};
    if (has_jobs)
      row.insert(row.begin() + 1, one.job.JobName().empty() ? "" : one.job.JobName() + " " + role);
    rows.push_back(std::move(row));
  }
  std::vector<std::string> header{"PID", "PROBED", "CPU", "MEMORY", "STATE", "COMMAND", "IN"};
  if (has_jobs) header.insert(header.begin() + 1, "JOB");
  return FormatTable(header, rows);
}

Result<int> Run(const Invocation& invocation) {
  const std::vector<PythonProcess> all = FindAll();
  if (invocation.Has("--json")) {
    Json list = Json::array();
    for (const PythonProcess& one : all) list.push_back(ToJson(one));
    Print(FormatJson(list));
    return 0;
  }
  if (all.empty()) {
    PrintAside("no Python process of yours runs on this host; root sees those of all users\n");
    return 0;
  }
  Print(ToText(all));
  return 0;
}

}  // namespace

Result<pid_t> FindScript(const std::string& script) {
  const auto names_it = [&](pid_t pid) {
    const Result<std::string> line = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
    std::istringstream words(line.ok() ? *line : "");
    for (std::string word; std::getline(words, word, '\0');) {
      if (word == script || word.ends_with("/" + script)) return true;
    }
    return false;
  };
  std::map<pid_t, pid_t> found;  // with their parents
  for (const pid_t pid : process::ListProcesses()) {
    if (!names_it(pid) || !process::RunsPython(pid)) continue;
    const process::JobRole role = process::ReadJobIdentity(pid).role;
    if (role == process::JobRole::kLauncher || role == process::JobRole::kWorker) continue;
    if (const auto status = process::ReadStatus(pid); status.ok()) found[pid] = status->parent;
  }
  std::string pids;
  pid_t one = 0;
  int count = 0;
  for (const auto& [pid, parent] : found) {
    if (found.contains(parent)) continue;
    one = pid;
    pids += (count++ > 0 ? ", " : "") + std::to_string(pid);
  }
  if (count == 1) return one;
  if (count == 0) {
    return Error{Code::kNotFound, "no Python process of this host that you may look into runs " + script,
                 "`probing ps` lists those there are"};
  }
  return Error{Code::kUsage, std::to_string(count) + " processes run " + script + ": " + pids,
               "name one: -t PID, -t rank:N or -t job:NAME"};
}

Command PsCommand() {
  return {.name = "ps",
          .summary = "List the Python processes of this host, probed or not, and what each of them does",
          .example = "probing ps",
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
