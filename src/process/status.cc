#include "process/status.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/file.h"
#include "base/stat_line.h"
#include "base/text.h"

namespace probing::process {
namespace {

constexpr std::uint64_t kExitingFlag = 0x00000004;       // PF_EXITING
constexpr std::uint64_t kKernelThreadFlag = 0x00200000;  // PF_KTHREAD

std::string ProcPath(const std::string& root, pid_t pid, const char* file) {
  return root + "/" + std::to_string(pid) + "/" + file;
}

std::vector<std::uint64_t> Numbers(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (at < end) {
    std::uint64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error == std::errc()) numbers.push_back(value);
    at = error == std::errc() ? next : at + 1;
  }
  return numbers;
}

void ParseStatusLine(std::string_view key, std::string_view value, Status& status) {
  const auto number = [&](std::size_t index) -> std::int64_t {
    const auto numbers = Numbers(value);
    return index < numbers.size() ? static_cast<std::int64_t>(numbers[index]) : 0;
  };
  if (key == "Name") status.name = value;
  if (key == "State" && !value.empty()) status.state = value.front();
  if (key == "PPid") status.parent = static_cast<pid_t>(number(0));
  if (key == "TracerPid") status.tracer = static_cast<pid_t>(number(0));
  if (key == "Threads") status.threads = static_cast<int>(number(0));
  if (key == "Seccomp") status.seccomp_mode = static_cast<int>(number(0));
  if (key == "Seccomp_filters") status.seccomp_filters = static_cast<int>(number(0));
  if (key == "x86_Thread_features") status.shadow_stack = value.find("shstk") != std::string_view::npos;
  if (key == "Uid") {
    status.real_uid = static_cast<uid_t>(number(0));
    status.effective_uid = static_cast<uid_t>(number(1));
  }
  if (key == "NSpid") {
    for (const std::uint64_t pid : Numbers(value)) status.ns_pids.push_back(static_cast<pid_t>(pid));
  }
}

void ParseStat(std::string_view stat, Status& status) {
  constexpr int kFlags = 9, kStartTime = 22;
  const StatLine line(stat);
  const std::uint64_t flags = line.Field(kFlags).value_or(0);
  status.kernel_thread = (flags & kKernelThreadFlag) != 0;
  status.exiting = (flags & kExitingFlag) != 0;
  status.start_ticks = line.Field(kStartTime).value_or(0);
}

// Of the names of a folder those that are numbers.
std::vector<pid_t> NumbersIn(const std::vector<std::string>& names) {
  std::vector<pid_t> ids;
  for (const std::string& name : names) {
    if (pid_t id = 0; IsNumber(name) && ParseNumber(name, id)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace

Result<Status> ReadStatus(pid_t pid, const std::string& proc_root) {
  auto text = ReadFile(ProcPath(proc_root, pid, "status"));
  auto stat = ReadFile(ProcPath(proc_root, pid, "stat"));
  if (!text.ok() || !stat.ok()) {
    return Error{Code::kNotFound, "no process " + std::to_string(pid),
                 "`probing list` shows the probed ones"};
  }
  Status status;
  status.pid = pid;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = TakePart(rest, '\n');
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    ParseStatusLine(line.substr(0, colon), value, status);
  }
  ParseStat(*stat, status);
  return status;
}

std::string ShortCommandLine(pid_t pid, const std::string& proc_root) {
  auto line = ReadFile(ProcPath(proc_root, pid, "cmdline"));
  if (!line.ok() || line->empty()) return CommandLine(pid, proc_root);
  while (!line->empty() && line->back() == '\0') line->pop_back();  // a title leaves many
  std::string text;
  std::string_view rest = *line;
  for (int index = 0; !rest.empty(); ++index) {
    std::string_view word = TakePart(rest, '\0');
    if (word.starts_with('/') && index < 2) word.remove_prefix(word.rfind('/') + 1);
    if (index > 0) text += ' ';
    text += word;
  }
  return text;
}

std::string CommandLine(pid_t pid, const std::string& proc_root) {
  auto line = ReadFile(ProcPath(proc_root, pid, "cmdline"));
  if (line.ok() && !line->empty()) {
    while (!line->empty() && line->back() == '\0') line->pop_back();
    std::replace(line->begin(), line->end(), '\0', ' ');
    return *line;
  }
  auto name = ReadFile(ProcPath(proc_root, pid, "comm"));
  if (!name.ok()) return "";
  while (!name->empty() && name->back() == '\n') name->pop_back();
  return "[" + *name + "]";
}

Result<std::string> StartupEnvironment(pid_t pid, const std::string& variable, const std::string& proc_root) {
  ASSIGN_OR_RETURN(const std::string environment, ReadFile(ProcPath(proc_root, pid, "environ")));
  const std::string prefix = variable + "=";
  std::string_view rest = environment;
  while (!rest.empty()) {
    const std::string_view entry = TakePart(rest, '\0');
    if (entry.starts_with(prefix)) return std::string(entry.substr(prefix.size()));
  }
  return Error{Code::kNotFound, variable + " is not set", ""};
}

bool IsAlive(pid_t pid) {
  const Result<Status> status = ReadStatus(pid);
  return status.ok() && !status->ended() && !status->exiting;
}

Error EndedMeanwhile(pid_t pid) {
  return Error{Code::kNotFound, "process " + std::to_string(pid) + " ended meanwhile", ""};
}

std::vector<pid_t> ListProcesses(const std::string& proc_root) {
  const Result<std::vector<std::string>> names = ListDirectory(proc_root);
  return names.ok() ? NumbersIn(*names) : std::vector<pid_t>();
}

Result<std::vector<pid_t>> ListThreads(pid_t pid, const std::string& proc_root) {
  ASSIGN_OR_RETURN(const auto names, ListDirectory(ProcPath(proc_root, pid, "task")));
  return NumbersIn(names);
}

}  // namespace probing::process
