#include "observe/stacks/stack_tables.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "cpython/interpreter.h"
#include "flame/escape.h"
#include "process/status.h"
#include "process/thread_status.h"
#include "table/registry.h"
#include "table/rows.h"
#include "unwind/mixed_reader.h"

namespace probing::observe {
namespace {

using table::Rows;
using table::Value;

constexpr int kAttempts = 500;  // as `probing backtrace`: somebody asks once and wants an answer

// Which columns a query wants, by name: both tables are read by the same code.
class Wanted {
 public:
  Wanted(const table::Table& table, const std::vector<std::size_t>& columns) {
    for (const std::size_t column : columns) names_.push_back(table.columns[column].name);
  }
  bool Has(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  const std::vector<std::string_view>& names() const { return names_; }

 private:
  std::vector<std::string_view> names_;
};

Value OrNull(std::string text) { return text.empty() ? Value() : Value(std::move(text)); }

Value LocalsAsJson(const cpython::Frame& frame) {
  if (!frame.locals) return {};
  std::string json = "{";
  for (const cpython::Local& local : *frame.locals) {
    if (json.size() > 1) json += ", ";
    json +=
        flame::JsonText(flame::ValidUtf8(local.name)) + ": " + flame::JsonText(flame::ValidUtf8(local.text));
  }
  return json + "}";
}

struct Place {
  const cpython::Thread* thread;
  const process::ThreadStatus* kernel;
  const cpython::Frame* frame;
  std::int64_t depth;
  const std::string* task;
};

Value ValueOf(std::string_view column, const Place& at) {
  if (column == "depth") return at.depth;
  if (column == "func") return at.frame->function;
  if (column == "file") return at.frame->file;
  if (column == "lineno") return at.frame->line == 0 ? Value() : Value(std::int64_t{at.frame->line});
  if (column == "frame_type") return std::string("Python");
  if (column == "locals") return LocalsAsJson(*at.frame);
  if (column == "tid") return std::int64_t{at.thread->tid};
  if (column == "thread_name") {
    return OrNull(at.thread->python_name.empty() ? at.thread->name : at.thread->python_name);
  }
  if (column == "has_gil") return at.thread->has_gil;
  if (column == "state") return std::string(process::StateWord(at.kernel->state));
  if (column == "wait_channel") return OrNull(at.kernel->wait_channel);
  if (column == "interpreter") return at.thread->interpreter_id;
  if (column == "task") return OrNull(*at.task);
  return {};
}

// Of the event loop that the thread runs; empty when there is none, or no task runs.
std::string RunningTask(const cpython::Snapshot& snapshot, pid_t tid) {
  for (const cpython::Task& task : snapshot.tasks) {
    if (task.tid == tid && task.state == cpython::Task::State::kRunning) return task.name;
  }
  return "";
}

void AddThread(const Wanted& wanted, pid_t pid, const cpython::Thread& thread, const std::string& task,
               Rows& rows) {
  process::ThreadStatus kernel;
  if (wanted.Has("state") || wanted.Has("wait_channel")) {
    auto status = process::ReadThreadStatus(pid, thread.tid);
    if (status.ok()) kernel = std::move(*status);
  }
  std::int64_t depth = 0;
  for (const cpython::Frame& frame : thread.frames) {
    if (depth == static_cast<std::int64_t>(thread.left_out_at)) {
      depth += static_cast<std::int64_t>(thread.left_out);
    }
    std::vector<Value> row;
    for (const std::string_view name : wanted.names())
      row.push_back(ValueOf(name, {&thread, &kernel, &frame, depth, &task}));
    rows.Add(std::move(row));
    ++depth;
  }
}

enum class Threads : std::uint8_t { kMain, kAll };

struct NativePlace {
  const unwind::MixedReading* reading;
  const process::ThreadStatus* kernel;
  const unwind::MixedFrame* frame;
  std::int64_t depth;
};

// Of a function itself: what was inlined into it is no row, so that the rows do not depend on the columns.
Value SourceOf(const unwind::NativeFrame& native) {
  if (native.places.empty() || native.places.back().file.empty()) return {};
  return native.places.back().file + ":" + std::to_string(native.places.back().line);
}

Value ValueOf(std::string_view column, const NativePlace& at) {
  const cpython::Thread& thread = at.reading->python;
  if (column == "depth") return at.depth;
  if (column == "tid") return std::int64_t{at.kernel->tid};
  if (column == "thread_name")
    return OrNull(thread.python_name.empty() ? at.kernel->name : thread.python_name);
  if (column == "has_gil") return thread.has_gil;
  if (column == "state") return std::string(process::StateWord(at.kernel->state));
  if (column == "wait_channel") return OrNull(at.kernel->wait_channel);
  if (column == "merged") return at.reading->stack.merged;
  if (at.frame->kind == unwind::MixedFrame::Kind::kNative) {
    const unwind::NativeFrame& native = at.reading->native.frames[at.frame->index];
    if (column == "func") return OrNull(native.function->name);
    if (column == "file") return OrNull(native.function->module);
    if (column == "frame_type") return std::string("Native");
    if (column == "source") return SourceOf(native);
    return {};
  }
  const cpython::Frame& python = thread.frames[at.frame->index];
  if (column == "func") return python.function;
  if (column == "file") return python.file;
  if (column == "lineno") return python.line == 0 ? Value() : Value(std::int64_t{python.line});
  if (column == "frame_type") return std::string("Python");
  if (column == "interpreter") return python.interpreter_id.value_or(thread.interpreter_id);
  return {};
}

Result<Rows> ReadNativeStacks(const table::Table& table, const table::Target& target,
                              const std::vector<std::size_t>& columns) {
  const Wanted wanted(table, columns);
  const auto pid = static_cast<pid_t>(target.pid);
  Rows rows(table::TypesOf(table, columns));
  if (!target.may_hold) {
    return Error{Code::kPermission, "native frames hold threads, which takes the right to profile",
                 "python.stacks has the Python frames"};
  }
  if (!process::IsAlive(pid)) return rows;
  auto interpreter = cpython::Interpreter::Attach(pid);
  unwind::SymbolStore symbols;
  ASSIGN_OR_RETURN(auto unwinder, unwind::Unwinder::Attach(pid, symbols));
  ASSIGN_OR_RETURN(const auto tids, process::ListThreads(pid));
  const process::ThreadStatusReader statuses(pid);
  std::size_t left_out = 0;
  for (const pid_t tid : tids) {
    const auto kernel = statuses.Read(tid);
    if (!kernel.ok()) continue;  // it has ended
    auto reading = unwind::ReadMixed(unwinder, interpreter.ok() ? &*interpreter : nullptr, tid);
    if (!reading.ok()) {
      left_out += reading.error().code != Code::kNotFound ? 1 : 0;
      continue;
    }
    if (wanted.Has("source")) unwinder.AddLines(reading->native);
    std::int64_t depth = 0;
    for (const unwind::MixedFrame& frame : reading->stack.frames) {
      std::vector<Value> row;
      const NativePlace place{&*reading, &*kernel, &frame, depth++};
      for (const std::string_view name : wanted.names()) row.push_back(ValueOf(name, place));
      rows.Add(std::move(row));
    }
  }
  if (left_out > 0) {
    rows.set_note(std::to_string(left_out) + " threads of process " + std::to_string(pid) +
                  " could not be held to read their native frames");
  }
  return rows;
}

Result<Rows> ReadStacks(const table::Table& table, Threads which, const table::Target& target,
                        const std::vector<std::size_t>& columns) {
  const Wanted wanted(table, columns);
  const auto pid = static_cast<pid_t>(target.pid);
  Rows rows(table::TypesOf(table, columns));
  if (!process::IsAlive(pid)) return rows;  // what it left behind is in crash.stacks
  ASSIGN_OR_RETURN(cpython::Interpreter interpreter, cpython::Interpreter::Attach(pid));
  cpython::ReadOptions options{.attempts = kAttempts,
                               .locals = wanted.Has("locals") && target.shows_locals,
                               .share_cpu = true,
                               .tasks = wanted.Has("task")};
  if (which == Threads::kMain) {
    options.skip = [pid](const cpython::Thread& thread) { return thread.tid != pid; };
  }
  ASSIGN_OR_RETURN(const cpython::Snapshot snapshot, interpreter.Read(options));
  for (const cpython::Thread& thread : snapshot.threads) {
    if (!thread.skipped) AddThread(wanted, pid, thread, RunningTask(snapshot, thread.tid), rows);
  }
  return rows;
}

std::shared_ptr<table::Source> MakeSource(std::string_view name, Threads which) {
  const table::Table* table = table::FindTable(name);
  return table::MakeRowsSource(
      {.table = table,
       .make = [table, which](const table::Target* target, const std::vector<std::size_t>& columns) {
         return ReadStacks(*table, which, *target, columns);
       }});
}

std::shared_ptr<table::Source> MakeNativeSource() {
  const table::Table* table = table::FindTable("python.native_stacks");
  return table::MakeRowsSource(
      {.table = table, .make = [table](const table::Target* target, const std::vector<std::size_t>& columns) {
         return ReadNativeStacks(*table, *target, columns);
       }});
}

}  // namespace

std::vector<std::shared_ptr<table::Source>> StackSources() {
  return {MakeSource("python.backtrace", Threads::kMain), MakeSource("python.stacks", Threads::kAll),
          MakeNativeSource()};
}

}  // namespace probing::observe
