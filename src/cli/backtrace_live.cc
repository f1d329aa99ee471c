#include <algorithm>

#include "cli/backtrace.h"
#include "cli/output.h"
#include "cpython/interpreter.h"
#include "process/held_process.h"

namespace probing::cli {
namespace {

constexpr int kAttempts = 500;      // where its CPU cannot be shared: 5 ms for the busiest thread
constexpr int kHolds = 5;           // tries at a picture without a torn thread
constexpr int kHoldLimitMs = 1000;  // for all threads to stand still

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

// Gives every task to the thread that runs its event loop. Those of threads that are not shown are
// left out.
void AddTasks(Picture& picture, const Selection& selection) {
  for (const cpython::Task& task : picture.snapshot.tasks) {
    if (task.tid == 0 && !selection.tid) picture.other_tasks.push_back(task);
    for (ShownThread& thread : picture.threads) {
      if (task.tid != 0 && thread.kernel.tid == task.tid) thread.tasks.push_back(task);
    }
  }
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

}  // namespace

Result<Picture> ReadLive(const Invocation& invocation, const Selection& selection) {
  Picture picture;
  picture.pid = *invocation.target;
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
  AddTasks(picture, selection);
  if (native) RETURN_IF_ERROR(AddNative(picture, &*interpreter));
  return picture;
}

}  // namespace probing::cli
