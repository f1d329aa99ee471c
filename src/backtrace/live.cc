#include <algorithm>
#include <unordered_set>
#include <utility>

#include "backtrace/backtrace.h"
#include "backtrace/own_frames.h"
#include "backtrace/thread_statuses.h"
#include "backtrace/version_note.h"
#include "cpython/interpreter.h"
#include "process/held_process.h"

namespace probing::backtrace {
namespace {

constexpr int kAttempts = 500;      // where its CPU cannot be shared: 5 ms for the busiest thread
constexpr int kHolds = 5;           // tries at a picture without a torn thread
constexpr int kHoldLimitMs = 1000;  // for all threads to stand still

// Reads the threads again, native frames and all. `interpreter` is null where there is no Python.
Result<void> AddNative(Picture& picture, cpython::Interpreter* interpreter, const Options& options) {
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
    thread.python.left_out = 0;  // counts in the Python frames, which now are among others
    if (options.lines) unwinder.AddLines(reading->native);
    thread.mixed = std::move(*reading);
  }
  // A thread that entered several interpreters is one native stack, with the frames of all of them.
  std::unordered_set<pid_t> shown;
  std::erase_if(picture.threads, [&](const ShownThread& thread) {
    return thread.mixed && thread.kernel.tid != 0 && !shown.insert(thread.kernel.tid).second;
  });
  return {};
}

// Lets the process go, and says for how long it was held.
std::string Release(process::HeldProcess& held) {
  const std::size_t count = held.thread_count();
  const std::size_t asleep = held.asleep_count();
  const std::int64_t held_us = held.Release() / 1000;
  if (count + asleep == 0) return "the target stands still already: nothing was held\n";
  const auto threads = [](std::size_t n) { return std::to_string(n) + (n == 1 ? " thread" : " threads"); };
  if (count == 0) return "held no thread: " + threads(asleep) + " asleep\n";
  return "held " + threads(count) + " for " + std::to_string(held_us / 1000) + "." +
         std::to_string(held_us / 100 % 10) + " ms" +
         (asleep == 0 ? "\n" : ", left " + threads(asleep) + " asleep\n");
}

// A thread may have been held just between two frames, and one that was left asleep may have woken up; the
// next time it is somewhere else.
Result<cpython::Snapshot> ReadHeld(pid_t pid, cpython::Interpreter& interpreter, cpython::ReadOptions options,
                                   std::string& remarks) {
  // All objects would be looked at while the program stands still.
  const std::int64_t greenlets_ms = std::exchange(options.greenlets_ms, 0);
  process::Sleepers sleepers;
  for (int tries_left = kHolds;; --tries_left) {
    auto held = process::HeldProcess::Hold(pid, sleepers, Deadline::AfterMs(kHoldLimitMs));
    if (!held.ok()) {
      return Error{held.error().code, held.error().message, "without --stop nothing has to be held"};
    }
    auto snapshot = interpreter.Read(options);
    const bool stood_still = held->StoodStill();
    remarks += Release(*held);
    const bool torn = snapshot.ok() && std::any_of(snapshot->threads.begin(), snapshot->threads.end(),
                                                   [](const cpython::Thread& thread) { return thread.torn; });
    if ((!stood_still || torn) && tries_left > 1) continue;
    if (snapshot.ok()) interpreter.AddGreenlets(*snapshot, greenlets_ms);
    return snapshot;
  }
}

// Where no Python can be read, because of `error`.
Result<Picture> ReadNativeOnly(Picture picture, const Options& options, Error error,
                               const ThreadStatuses& statuses) {
  if (error.code != Code::kFailed) return error;
  if (!options.native) {
    error.hint += (error.hint.empty() ? "" : "; ") + std::string("--native shows the native frames");
    return error;
  }
  picture.remarks += "note: " + error.message + "; native frames only\n";
  Options all = options;
  all.selection.all = true;
  picture.threads = Select(picture.pid, {}, all, statuses);
  RETURN_IF_ERROR(AddNative(picture, nullptr, options));
  return picture;
}

}  // namespace

Result<Picture> ReadLive(pid_t pid, const Options& options) {
  Picture picture;
  picture.pid = pid;
  picture.task_tree = options.task_tree;
  using Details = ThreadStatuses::Details;
  ThreadStatuses statuses(pid, options.wait_channels ? Details::kAll : Details::kNoWaitChannel);
  auto interpreter = cpython::Interpreter::Attach(pid);
  if (!interpreter.ok()) return ReadNativeOnly(std::move(picture), options, interpreter.error(), statuses);
  const cpython::ReadOptions how{.attempts = kAttempts,
                                 .locals = options.locals,
                                 .depth_of_values = options.depth,
                                 .share_cpu = !options.stop,
                                 .kernel_names = false,
                                 .tasks = true,
                                 .greenlets_ms = GreenletsMs(options)};
  // Of threads that are held the kernel says only that.
  if (!options.stop) statuses.ReadAside();
  auto snapshot = options.stop ? ReadHeld(pid, *interpreter, how, picture.remarks) : interpreter->Read(how);
  statuses.Finish();
  // It may have ended while the process goes on: in a destructor of a library, for example.
  if (!snapshot.ok()) return ReadNativeOnly(std::move(picture), options, snapshot.error(), statuses);
  picture.snapshot = std::move(*snapshot);
  picture.remarks += AboutVersion(picture.snapshot.version);
  picture.threads = Select(pid, picture.snapshot, options, statuses);
  AddTasks(picture, options.selection);
  if (options.native) RETURN_IF_ERROR(AddNative(picture, &*interpreter, options));
  if (!options.own_frames) LeaveOutOwnFrames(picture.threads);
  return picture;
}

}  // namespace probing::backtrace
