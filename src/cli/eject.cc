#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/installation.h"
#include "cli/output.h"
#include "process/maps.h"
#include "process/status.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kUnmapTimeoutMs = 2000;
constexpr std::int64_t kThreadTimeoutMs = 200;  // threads that evaluated code started have inherited the name
constexpr std::size_t kCommandBytes = 60;

// The libraries of probes that are mapped, by their inodes. There may be several: one that the program still
// uses stays while it does.
std::set<std::uint64_t> MappedLibraries(pid_t pid) {
  std::set<std::uint64_t> found;
  const Result<process::Maps> maps = process::Maps::Read(pid);
  if (!maps.ok()) return found;  // the process is gone, and all its mappings with it
  for (const process::Mapping& mapping : maps->all()) {
    if (IsProbeLibrary(mapping)) found.insert(mapping.inode);
  }
  return found;
}

// Whether a thread of the probe is still there: the one that unmapped the library ends a moment later, and
// a fork() in that moment would make Python 3.12 warn about threads.
bool HasThreadOfOurs(pid_t pid) {
  const Result<std::vector<pid_t>> threads = process::ListThreads(pid);
  if (!threads.ok()) return false;
  return std::ranges::any_of(*threads, [pid](pid_t tid) {
    const auto name = ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm");
    return name.ok() && name->starts_with("probing");
  });
}

Result<int> Run(const Invocation& invocation) {
  const pid_t pid = *invocation.target;
  const std::set<std::uint64_t> before = MappedLibraries(pid);
  ASSIGN_OR_RETURN(const Json answer, PostToDaemon(std::string(wire::kEjectRoute), {{"target", pid}}));
  const std::string note = answer.value("note", "");
  if (invocation.endpoint) {
    Print(invocation.Has("--json") ? FormatJson({{"pid", pid}, {"note", note}})
                                   : "ejected the probe from " + invocation.remote_name +
                                         (note.empty() ? "" : ": " + note) + "\n");
    return 0;
  }
  // A note is the probe's reason to stay mapped; without one it is about to go.
  const Deadline deadline = Deadline::AfterMs(kUnmapTimeoutMs);
  const auto is_mapped = [&] {
    return !before.empty() && std::ranges::includes(MappedLibraries(pid), before);
  };
  bool mapped = is_mapped();
  while (mapped && note.empty() && !deadline.passed()) {
    SleepUs(500);
    mapped = is_mapped();
  }
  const Deadline thread_deadline = Deadline::AfterMs(kThreadTimeoutMs);
  while (!mapped && note.empty() && HasThreadOfOurs(pid) && !thread_deadline.passed()) SleepUs(500);
  if (mapped && note.empty()) {
    return Error{Code::kTimeout,
                 "the probe left process " + std::to_string(pid) + " but its library is still mapped",
                 "it does nothing any more; it goes away with the process"};
  }
  if (invocation.Has("--json")) {
    Print(FormatJson({{"pid", pid}, {"mapped", mapped}, {"note", note}}));
  } else {
    Print("ejected the probe from " + std::to_string(pid) + " (" +
          OneLine(process::CommandLine(pid), kCommandBytes) + ")" + (note.empty() ? "" : ": " + note) + "\n");
  }
  return 0;
}

}  // namespace

Command EjectCommand() {
  return {.name = "eject",
          .summary = "Remove the probe from a process",
          .example = "probing -t 1234 eject",
          .target = TargetUse::kRequired,
          .for_each_rank = Command::OfJob::kInTurn,
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
