// probing backtrace: where every Python thread of a process is. Needs no injection.

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/native_frames.h"
#include "cli/output.h"
#include "cpython/dead_process.h"
#include "cpython/interpreter.h"
#include "process/core_file.h"
#include "process/held_process.h"
#include "process/status.h"
#include "process/thread_status.h"

namespace probing::cli {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 4;  // of frames
constexpr int kAttempts = 500;      // where its CPU cannot be shared: 5 ms for the busiest thread
constexpr int kHolds = 5;           // tries at a picture without a torn thread
constexpr int kHoldLimitMs = 1000;  // for all threads to stand still

struct ShownThread {
  cpython::Thread python;
  process::ThreadStatus kernel;
  bool has_python = false;
  std::optional<unwind::MixedReading> mixed;  // with --native
  std::string no_native;                      // why not
  std::vector<cpython::Task> tasks;           // of the event loop that it runs
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

std::string FormatLocals(const cpython::Frame& frame) {
  std::string text;
  if (!frame.locals) return text;
  for (const cpython::Local& local : *frame.locals)
    text += "        " + local.name + " = " + local.text + "\n";
  return text;
}

std::string FormatFrameIndented(const cpython::Frame& frame, std::size_t indent) {
  const std::string line = frame.line == 0 ? "" : ":" + std::to_string(frame.line);
  const std::size_t used = indent + Width(frame.function) + line.size() + std::string_view(" ()").size();
  return std::string(indent, ' ') + frame.function + " (" +
         ShortenPath(frame.file, used < kColumns ? kColumns - used : 0) + line + ")\n" + FormatLocals(frame);
}

std::string FormatFrame(const cpython::Frame& frame) { return FormatFrameIndented(frame, kIndent); }

const char* StateName(cpython::Task::State state) {
  switch (state) {
    case cpython::Task::State::kRunning:
      return "running";
    case cpython::Task::State::kReady:
      return "ready";
    case cpython::Task::State::kWaiting:
      return "waiting";
  }
  return "?";
}

// Below the frames of the thread that runs its event loop.
std::string FormatTask(const cpython::Task& task) {
  std::string text =
      std::string(kIndent, ' ') + "Task \"" + task.name + "\" (" + StateName(task.state) + ")\n";
  for (const cpython::Frame& frame : task.frames) text += FormatFrameIndented(frame, 2 * kIndent);
  return text;
}

// Of a core file: nobody knows any more what it was called and what it did.
bool IsDead(const ShownThread& thread) { return thread.kernel.state == '?' && thread.kernel.name.empty(); }

std::string FormatThread(const ShownThread& thread) {
  std::string text = "Thread " + std::to_string(thread.kernel.tid);
  // What the program calls it says more than what the kernel does, which often is only "python".
  const std::string& name =
      thread.python.python_name.empty() ? thread.kernel.name : thread.python.python_name;
  if (!name.empty()) text += " \"" + name + "\"";
  std::string state = IsDead(thread) ? "" : process::StateName(thread.kernel.state);
  if (thread.kernel.state == 'S' && !thread.kernel.syscall.empty()) state += " in " + thread.kernel.syscall;
  if (thread.python.has_gil) state += state.empty() ? "holds the GIL" : ", holds the GIL";
  text = Painted(text, Colour::kBold) + (state.empty() ? "" : " (" + state + ")") + "\n";
  std::string tasks;
  for (const cpython::Task& task : thread.tasks) tasks += FormatTask(task);
  if (thread.mixed) return text + FormatMixed(*thread.mixed, kColumns, FormatFrame) + tasks;
  for (const cpython::Frame& frame : thread.python.frames) text += FormatFrame(frame);
  if (!thread.no_native.empty()) text += "    (no native frames: " + thread.no_native + ")\n";
  if (thread.python.torn) {
    text += "    (changed faster than it could be read: --stop holds it for a moment)\n";
  } else if (thread.python.frames.empty()) {
    text += thread.has_python ? "    (no Python frame)\n" : "    (not a Python thread)\n";
  }
  if (thread.python.truncated) text += "    (and more)\n";
  return text + tasks;
}

nlohmann::ordered_json OrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

nlohmann::ordered_json FrameToJson(const cpython::Frame& frame) {
  nlohmann::ordered_json one = {{"func", frame.function}, {"file", frame.file}, {"lineno", nullptr}};
  if (frame.line != 0) one["lineno"] = frame.line;
  one["frame_type"] = "Python";
  if (frame.locals) {
    one["locals"] = nlohmann::ordered_json::object();
    for (const cpython::Local& local : *frame.locals) one["locals"][local.name] = local.text;
  }
  one["kind"] = "python";
  return one;
}

nlohmann::ordered_json TasksToJson(const std::vector<cpython::Task>& tasks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const cpython::Task& task : tasks) {
    nlohmann::ordered_json frames = nlohmann::ordered_json::array();
    for (const cpython::Frame& frame : task.frames) frames.push_back(FrameToJson(frame));
    all.push_back({{"name", task.name}, {"state", StateName(task.state)}, {"frames", std::move(frames)}});
  }
  return all;
}

nlohmann::ordered_json ToJson(const ShownThread& thread) {
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (const cpython::Frame& frame : thread.python.frames) frames.push_back(FrameToJson(frame));
  nlohmann::ordered_json merged = nullptr;
  if (thread.mixed) {
    frames = MixedToJson(*thread.mixed, FrameToJson);
    merged = thread.mixed->stack.merged;
  }
  return {{"tid", thread.kernel.tid},
          {"name", OrNull(thread.kernel.name)},
          {"thread_name", OrNull(thread.python.python_name)},
          {"state", IsDead(thread) ? OrNull("") : process::StateName(thread.kernel.state)},
          {"syscall", OrNull(thread.kernel.syscall)},
          {"wait_channel", OrNull(thread.kernel.wait_channel)},
          {"has_python", thread.has_python},
          {"has_gil", thread.python.has_gil},
          {"torn", thread.python.torn},
          {"truncated", thread.python.truncated},
          {"merged", std::move(merged)},
          {"frames", std::move(frames)},
          {"tasks", TasksToJson(thread.tasks)}};
}

struct Picture {
  pid_t pid = 0;
  cpython::Snapshot snapshot;
  std::vector<ShownThread> threads;
  std::vector<cpython::Task> other_tasks;  // of event loops that nobody runs, or of an unknown kind
};

// Gives every task to the thread that runs its event loop. Those of threads that are not shown are left out.
void AddTasks(Picture& picture) {
  for (const cpython::Task& task : picture.snapshot.tasks) {
    if (task.tid == 0) {
      picture.other_tasks.push_back(task);
      continue;
    }
    for (ShownThread& thread : picture.threads) {
      if (thread.kernel.tid == task.tid) thread.tasks.push_back(task);
    }
  }
}

void PrintJson(const Picture& picture) {
  const cpython::Snapshot& snapshot = picture.snapshot;
  nlohmann::ordered_json answer = {{"pid", picture.pid},
                                   {"python", snapshot.version.ToText()},
                                   {"free_threaded", snapshot.free_threaded},
                                   {"gil_holder", nullptr},
                                   {"threads", nlohmann::ordered_json::array()},
                                   {"tasks", TasksToJson(picture.other_tasks)},
                                   {"task_count", snapshot.task_count}};
  if (snapshot.gil_holder_tid) answer["gil_holder"] = *snapshot.gil_holder_tid;
  for (const ShownThread& thread : picture.threads) answer["threads"].push_back(ToJson(thread));
  // The kernel's thread names may be cut in the middle of a character.
  Print(answer.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

// Reads the threads again, native frames and all. `interpreter` is null where there is no Python.
Result<void> AddNative(Picture& picture, cpython::Interpreter* interpreter) {
  unwind::SymbolStore symbols;
  ASSIGN_OR_RETURN(auto unwinder, unwind::Unwinder::Attach(picture.pid, symbols));
  for (ShownThread& thread : picture.threads) {
    auto reading = unwind::ReadMixed(unwinder, thread.has_python ? interpreter : nullptr, thread.kernel.tid);
    if (!reading.ok()) {
      thread.no_native = reading.error().message;
      continue;
    }
    thread.python.torn = reading->python.torn;
    thread.python.truncated = reading->python.truncated;
    thread.mixed = std::move(*reading);
  }
  return {};
}

// Lets the process go, and says for how long it was held.
void Release(process::HeldProcess& held) {
  const std::size_t count = held.thread_count();
  const std::int64_t held_us = held.Release() / 1000;
  if (count == 0) return PrintAside("the target stands still already: nothing was held\n");
  PrintAside("held " + std::to_string(count) + (count == 1 ? " thread" : " threads") + " for " +
             std::to_string(held_us / 1000) + "." + std::to_string(held_us / 100 % 10) + " ms\n");
}

// A thread may have been held just between two frames; the next time it is somewhere else.
Result<cpython::Snapshot> ReadHeld(pid_t pid, cpython::Interpreter& interpreter,
                                   const cpython::ReadOptions& options) {
  for (int tries_left = kHolds;; --tries_left) {
    auto held = process::HeldProcess::Hold(pid, Deadline::AfterMs(kHoldLimitMs));
    if (!held.ok()) {
      return Error{held.error().code, held.error().message, "without --stop nothing has to be held"};
    }
    auto snapshot = interpreter.Read(options);
    Release(*held);
    const bool torn = snapshot.ok() && std::any_of(snapshot->threads.begin(), snapshot->threads.end(),
                                                   [](const cpython::Thread& thread) { return thread.torn; });
    if (!torn || tries_left == 1) return snapshot;
  }
}

Result<Picture> ReadLive(const Invocation& invocation, const Selection& selection) {
  Picture picture{*invocation.target, {}, {}};
  const bool native = invocation.Has("--native");
  auto interpreter = cpython::Interpreter::Attach(picture.pid);
  if (!interpreter.ok()) {
    Error& error = interpreter.error();
    if (error.code != Code::kFailed) return std::move(error);
    if (!native) {
      error.hint += (error.hint.empty() ? "" : "; ") + std::string("--native shows the native frames");
      return std::move(error);
    }
    PrintAside("note: " + interpreter.error().message + "; native frames only\n");
    picture.threads = Select(picture.pid, {}, {.tid = selection.tid, .all = true});
    RETURN_IF_ERROR(AddNative(picture, nullptr));
    return picture;
  }
  const cpython::ReadOptions options{.attempts = kAttempts,
                                     .locals = invocation.Has("--locals"),
                                     .share_cpu = !invocation.Has("--stop"),
                                     .tasks = true};
  ASSIGN_OR_RETURN(picture.snapshot, invocation.Has("--stop") ? ReadHeld(picture.pid, *interpreter, options)
                                                              : interpreter->Read(options));
  picture.threads = Select(picture.pid, picture.snapshot, selection);
  AddTasks(picture);
  if (native) RETURN_IF_ERROR(AddNative(picture, &*interpreter));
  return picture;
}

// What may be the reason when nothing makes sense.
std::string WhatTheCoreLacks(const process::CoreFile& core) {
  if (core.is_truncated) return "the core file is truncated: was the disk full, or `ulimit -c` too small?";
  if (core.missing_files.empty()) return core.command.empty() ? "" : "it is of `" + core.command + "`";
  std::string text = "missing, or not the same any more: " + core.missing_files.front();
  if (core.missing_files.size() > 1)
    text += " and " + std::to_string(core.missing_files.size() - 1) + " more";
  return text + "; name the program, or a folder with all files, after the core";
}

Result<Picture> ReadCore(const Invocation& invocation, const Selection& selection) {
  for (const char* option : {"--native", "--stop", "--locals"}) {
    if (invocation.Has(option))
      return Error{Code::kUsage, std::string(option) + " is for a live process, not for a core file", ""};
  }
  const std::string path = invocation.Get("--core");
  const std::string executable = invocation.arguments.empty() ? "" : invocation.arguments.front();
  ASSIGN_OR_RETURN(process::CoreFile core, process::CoreFile::Open(path, executable));
  const auto explained = [&](const Error& error) {
    return Error{error.code, path + ": " + error.message, WhatTheCoreLacks(core)};
  };
  auto snapshot = cpython::ReadDead(std::move(core.memory), core.maps, core.pid, core.tids);
  if (!snapshot.ok()) return explained(snapshot.error());
  Picture picture{core.pid, std::move(*snapshot), {}};
  for (const cpython::Thread& thread : picture.snapshot.threads) {
    picture.threads.push_back({thread, {.tid = thread.tid}, true});
  }
  for (const pid_t tid : core.tids) {
    const bool known = std::any_of(picture.threads.begin(), picture.threads.end(),
                                   [&](const ShownThread& thread) { return thread.kernel.tid == tid; });
    if (!known) picture.threads.push_back({{}, {.tid = tid}, false});
  }
  std::erase_if(picture.threads, [&](const ShownThread& thread) { return !IsShown(thread, selection); });
  if (core.is_truncated) PrintAside("note: " + WhatTheCoreLacks(core) + "\n");
  return picture;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Selection selection, ParseSelection(invocation));
  ASSIGN_OR_RETURN(const Picture picture, invocation.Has("--core") ? ReadCore(invocation, selection)
                                                                   : ReadLive(invocation, selection));
  if (selection.tid && picture.threads.empty()) {
    return Error{
        Code::kFailed,
        "process " + std::to_string(picture.pid) + " has no thread " + std::to_string(*selection.tid),
        "`probing backtrace --all` shows them"};
  }
  if (invocation.Has("--json")) {
    PrintJson(picture);
    return 0;
  }
  std::string text;
  for (const ShownThread& thread : picture.threads) text += (text.empty() ? "" : "\n") + FormatThread(thread);
  if (!selection.tid && !picture.other_tasks.empty()) {
    text += "\nTasks of event loops without a thread\n";
    for (const cpython::Task& task : picture.other_tasks) text += FormatTask(task);
  }
  if (picture.snapshot.task_count > picture.snapshot.tasks.size()) {
    text += "\n(and " + std::to_string(picture.snapshot.task_count - picture.snapshot.tasks.size()) +
            " more tasks)\n";
  }
  Print(text);
  return 0;
}

}  // namespace

Command BacktraceCommand() {
  return {
      .name = "backtrace",
      .alias = "bt",
      .summary = "Where every Python thread is, without injecting or stopping anything",
      .example = "probing -t 12345 backtrace",
      .target = TargetUse::kRequired,
      .arguments = Arguments::kNone,
      .options = {{"--tid", "TID", "only this thread"},
                  {"--all", "", "also threads that run no Python"},
                  {"--native", "", "also native frames; threads that run are held for some microseconds"},
                  {"--stop", "", "hold all threads meanwhile: a picture of one instant"},
                  {"--core", "FILE", "of a core file; its program, or a folder with all files, may follow"},
                  {"--locals", "", "also the variables of each frame"},
                  {"--json", "", "as JSON"}},
      .instead_of_target = "--core",
      .run = Run};
}

}  // namespace probing::cli
