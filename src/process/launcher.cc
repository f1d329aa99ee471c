#include "process/launcher.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "process/maps.h"
#include "process/status.h"

namespace probing::process {
namespace {

constexpr int kMaxAncestors = 16;

// Programs that pass their variables on to what they start. Under Slurm torchrun itself has a rank.
constexpr std::array<std::string_view, 15> kLaunchers{"torchrun",
                                                      "torch.distributed.run",
                                                      "torch.distributed.launch",
                                                      "deepspeed.launcher.launch",
                                                      "accelerate",
                                                      "deepspeed",
                                                      "horovodrun",
                                                      "mpirun",
                                                      "mpiexec",
                                                      "mpiexec.hydra",
                                                      "srun",
                                                      "slurmstepd",
                                                      "orted",
                                                      "prted",
                                                      "raylet"};
// Those of them that start the ranks of one host only, or of many jobs: they say nothing about one job.
constexpr std::array<std::string_view, 4> kServices{"slurmstepd", "orted", "prted", "raylet"};
// The same, as the first word of a command line only.
constexpr std::array<std::string_view, 12> kWrappers{
    "sh", "bash", "dash", "zsh", "ksh", "env", "time", "timeout", "numactl", "taskset", "nice", "stdbuf"};

bool IsIn(std::string_view word, const auto& list) {
  return std::ranges::find(list, BaseName(word)) != list.end();
}

std::string ReadCommand(pid_t pid, const std::string& proc_root) {
  const Result<std::string> line = ReadFile(proc_root + "/" + std::to_string(pid) + "/cmdline");
  return line.ok() ? *line : "";
}

// The launcher that a command line names, and what follows it: {"torchrun",
// "--nproc-per-node=4\0train.py\0"}. Words behind the program's own belong to what it starts.
struct LauncherLine {
  std::string_view launcher;  // "" for none
  std::string_view rest;
};
LauncherLine FindLauncher(std::string_view line) {
  const std::string_view program = BaseName(TakePart(line, '\0'));
  if (IsIn(program, kLaunchers)) return {program, line};
  while (!line.empty()) {
    std::string_view word = TakePart(line, '\0');
    const bool is_module = word == "-m";
    if (is_module) word = TakePart(line, '\0');
    if (is_module || !word.starts_with('-')) return {IsIn(word, kLaunchers) ? BaseName(word) : "", line};
  }
  return {};
}

// "train.py" or "pkg.train" among what a launcher was told to start; its own options may have values.
std::string ScriptAmong(std::string_view words) {
  while (!words.empty()) {
    const std::string_view word = TakePart(words, '\0');
    if (word == "-m" || word == "--module") {
      const std::string_view module = TakePart(words, '\0');
      if (!module.empty() && !module.starts_with('-')) return std::string(module);
    }
    if (word.ends_with(".py") && !word.starts_with('-')) return std::string(BaseName(word));
  }
  return "";
}

struct Starter {
  pid_t pid = 0;  // 0: none
  std::string script;
};

// A program that starts ranks itself: by multiprocessing, subprocess or ray.init().
Starter OwnStarter(pid_t pid, std::string_view line) {
  const std::string_view program = BaseName(TakePart(line, '\0'));
  if (!program.starts_with("python") || line.find("multiprocessing") != std::string_view::npos) return {};
  std::string script = ScriptAmong(line);
  while (script.empty() && !line.empty()) {
    const std::string_view word = TakePart(line, '\0');
    if (word == "-c") script = "python";
    if (!word.starts_with('-')) script = BaseName(word);
  }
  return script.empty() || script == "ray" ? Starter{} : Starter{pid, std::move(script)};
}

Starter FindStarter(pid_t rank, const std::string& proc_root) {
  Starter own;
  pid_t pid = rank;
  for (int depth = 0; depth < kMaxAncestors; ++depth) {
    const Result<Status> status = ReadStatus(pid, proc_root);
    if (!status.ok() || status->parent <= 1) break;
    pid = status->parent;
    const std::string line = ReadCommand(pid, proc_root);
    const LauncherLine found = FindLauncher(line);
    if (IsIn(found.launcher, kServices)) continue;
    if (!found.launcher.empty()) {
      std::string script = ScriptAmong(found.rest);
      return {pid, script.empty() ? std::string(found.launcher) : std::move(script)};
    }
    if (own.pid == 0) own = OwnStarter(pid, line);
  }
  return own;
}

// "1118-2031". To the minute, because the clock may have been adjusted since the machine was started.
std::string StartTime(std::uint64_t ticks) {
  const std::int64_t boot_ns = WallNs() - ReadClockNs(CLOCK_BOOTTIME);
  const auto ticks_per_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const time_t seconds =
      static_cast<time_t>(boot_ns / 1'000'000'000 + static_cast<std::int64_t>(ticks / ticks_per_second));
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof(text), "%m%d-%H%M", &parts);
  return text;
}

}  // namespace

bool IsLauncher(pid_t pid, const std::string& proc_root) {
  const std::string line = ReadCommand(pid, proc_root);
  std::string_view rest = line;
  return IsIn(TakePart(rest, '\0'), kWrappers) || !FindLauncher(line).launcher.empty();
}

std::string RendezvousOf(pid_t pid, const std::string& proc_root) {
  const std::string line = ReadCommand(pid, proc_root);
  std::string_view rest = line;
  while (!rest.empty()) {
    std::string_view value = TakePart(rest, '\0');
    const std::string_view option = TakePart(value, '=');
    if (option != "--rdzv-endpoint" && option != "--rdzv_endpoint") continue;
    return std::string(value.empty() ? TakePart(rest, '\0') : value);
  }
  return "";
}

std::string NameByLauncher(pid_t rank, const std::string& proc_root) {
  const Starter starter = FindStarter(rank, proc_root);
  if (starter.pid == 0) return "";
  const Result<Status> status = ReadStatus(starter.pid, proc_root);
  if (!status.ok()) return "";
  return starter.script + "-" + StartTime(status->start_ticks) + "-" + std::to_string(starter.pid);
}

std::string ScriptByLauncher(pid_t rank, const std::string& proc_root) {
  return FindStarter(rank, proc_root).script;
}

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = Lower(text[i]);
    if (is_dash ? c != '-' : (c < '0' || c > '9') && (c < 'a' || c > 'f')) return false;
  }
  return true;
}

}  // namespace probing::process
