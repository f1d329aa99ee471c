// probing backtrace: where every Python thread of a process is. Needs no injection.

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cpython/interpreter.h"
#include "process/status.h"
#include "process/thread_status.h"

namespace probing::cli {
namespace {

constexpr std::size_t kColumns = 80;
constexpr int kAttempts = 500;  // a person asks once and wants an answer: 5 ms for the busiest thread

struct ShownThread {
  cpython::Thread python;
  process::ThreadStatus kernel;
  bool has_python = false;
};

struct Selection {
  std::optional<pid_t> tid;
  bool all = false;
};

Result<Selection> ParseSelection(const Invocation& invocation) {
  Selection selection;
  selection.all = invocation.Has("--all");
  if (!invocation.Has("--tid")) return selection;
  const std::string text = invocation.Get("--tid");
  pid_t tid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tid);
  if (error != std::errc() || end != text.data() + text.size() || tid <= 0) {
    return Error{Code::kUsage, "--tid takes a thread id, not '" + text + "'", ""};
  }
  selection.tid = tid;
  return selection;
}

bool IsShown(const ShownThread& thread, const Selection& selection) {
  if (selection.tid) return thread.kernel.tid == *selection.tid;
  return selection.all || !thread.python.frames.empty() || thread.python.torn || thread.python.has_gil;
}

std::vector<ShownThread> Select(pid_t pid, const cpython::Snapshot& snapshot, const Selection& selection) {
  std::vector<ShownThread> threads;
  for (const cpython::Thread& thread : snapshot.threads) {
    auto kernel = process::ReadThreadStatus(pid, thread.tid);
    threads.push_back({thread, kernel.ok() ? *kernel : process::ThreadStatus{thread.tid, thread.name}, true});
  }
  const auto tids = process::ListThreads(pid);
  for (const pid_t tid : tids.ok() ? *tids : std::vector<pid_t>{}) {
    const bool known = std::any_of(threads.begin(), threads.end(),
                                   [&](const ShownThread& thread) { return thread.kernel.tid == tid; });
    auto kernel = known ? Result<process::ThreadStatus>(Error{}) : process::ReadThreadStatus(pid, tid);
    if (kernel.ok()) threads.push_back({{}, *kernel, false});
  }
  std::erase_if(threads, [&](const ShownThread& thread) { return !IsShown(thread, selection); });
  return threads;
}

// Characters, not bytes: names may be in any script.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

// Leaves out leading folders until the text fits; the file's own name always stays.
std::string ShortenPath(const std::string& path, std::size_t columns) {
  std::string_view rest = path;
  while (Width(rest) + 4 > columns) {
    const std::size_t slash = rest.find('/', 1);
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash);
  }
  return Width(path) <= columns || rest.size() == path.size() ? path : "..." + std::string(rest);
}

std::string FormatFrame(const cpython::Frame& frame) {
  const std::string line = frame.line == 0 ? "" : ":" + std::to_string(frame.line);
  const std::size_t used = Width(frame.function) + line.size() + std::string_view("     ()").size();
  return "    " + frame.function + " (" + ShortenPath(frame.file, used < kColumns ? kColumns - used : 0) +
         line + ")\n";
}

std::string FormatThread(const ShownThread& thread) {
  std::string text = "Thread " + std::to_string(thread.kernel.tid) + " \"" + thread.kernel.name + "\"";
  text = Painted(text, Colour::kBold) + " (" + process::StateName(thread.kernel.state);
  if (thread.kernel.state == 'S' && !thread.kernel.syscall.empty()) text += " in " + thread.kernel.syscall;
  if (thread.python.has_gil) text += ", holds the GIL";
  text += ")\n";
  for (const cpython::Frame& frame : thread.python.frames) text += FormatFrame(frame);
  if (thread.python.torn) {
    text += "    (changed faster than it could be read: try again)\n";
  } else if (thread.python.frames.empty()) {
    text += thread.has_python ? "    (no Python frame)\n" : "    (not a Python thread)\n";
  }
  if (thread.python.truncated) text += "    (and more)\n";
  return text;
}

nlohmann::ordered_json OrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

nlohmann::ordered_json ToJson(const ShownThread& thread) {
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (const cpython::Frame& frame : thread.python.frames) {
    nlohmann::ordered_json one = {{"func", frame.function}, {"file", frame.file}, {"lineno", nullptr}};
    if (frame.line != 0) one["lineno"] = frame.line;
    one["frame_type"] = "Python";
    frames.push_back(std::move(one));
  }
  return {{"tid", thread.kernel.tid},
          {"name", thread.kernel.name},
          {"state", process::StateName(thread.kernel.state)},
          {"syscall", OrNull(thread.kernel.syscall)},
          {"wait_channel", OrNull(thread.kernel.wait_channel)},
          {"has_python", thread.has_python},
          {"has_gil", thread.python.has_gil},
          {"torn", thread.python.torn},
          {"truncated", thread.python.truncated},
          {"frames", std::move(frames)}};
}

void PrintJson(pid_t pid, const cpython::Snapshot& snapshot, const std::vector<ShownThread>& threads) {
  nlohmann::ordered_json answer = {{"pid", pid},
                                   {"python", snapshot.version.ToText()},
                                   {"free_threaded", snapshot.free_threaded},
                                   {"gil_holder", nullptr},
                                   {"threads", nlohmann::ordered_json::array()}};
  if (snapshot.gil_holder_tid) answer["gil_holder"] = *snapshot.gil_holder_tid;
  for (const ShownThread& thread : threads) answer["threads"].push_back(ToJson(thread));
  // The kernel's thread names may be cut in the middle of a character.
  Print(answer.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

Result<int> Run(const Invocation& invocation) {
  const pid_t pid = *invocation.target;
  ASSIGN_OR_RETURN(const Selection selection, ParseSelection(invocation));
  ASSIGN_OR_RETURN(auto interpreter, cpython::Interpreter::Attach(pid));
  ASSIGN_OR_RETURN(const cpython::Snapshot snapshot, interpreter.Read({.attempts = kAttempts}));
  const std::vector<ShownThread> threads = Select(pid, snapshot, selection);
  if (selection.tid && threads.empty()) {
    return Error{Code::kFailed,
                 "process " + std::to_string(pid) + " has no thread " + std::to_string(*selection.tid),
                 "`probing -t " + std::to_string(pid) + " backtrace --all` shows them"};
  }
  if (invocation.Has("--json")) {
    PrintJson(pid, snapshot, threads);
    return 0;
  }
  std::string text;
  for (const ShownThread& thread : threads) text += (text.empty() ? "" : "\n") + FormatThread(thread);
  Print(text);
  return 0;
}

}  // namespace

Command BacktraceCommand() {
  return {.name = "backtrace",
          .alias = "bt",
          .summary = "Where every Python thread is, without injecting or stopping anything",
          .example = "probing -t 12345 backtrace",
          .target = TargetUse::kRequired,
          .arguments = Arguments::kNone,
          .options = {{"--tid", "TID", "only this thread"},
                      {"--all", "", "also threads that run no Python"},
                      {"--json", "", "as JSON"}},
          .run = Run};
}

}  // namespace probing::cli
