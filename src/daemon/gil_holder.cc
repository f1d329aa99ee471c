#include "daemon/gil_holder.h"

#include <functional>

#include "cpython/interpreter.h"

namespace probing::daemon {

namespace {

std::optional<GilHolder> Find(pid_t pid, const std::function<bool(const cpython::Thread&)>& is_it) {
  constexpr std::size_t kShownFrames = 12;
  Result<cpython::Interpreter> interpreter = cpython::Interpreter::Attach(pid);
  if (!interpreter.ok()) return std::nullopt;
  const Result<cpython::Snapshot> snapshot = interpreter->Read({.max_depth = kShownFrames});
  if (!snapshot.ok()) return std::nullopt;
  for (const cpython::Thread& thread : snapshot->threads) {
    if (!is_it(thread)) continue;
    GilHolder holder{thread.tid, thread.name, {}};
    for (const cpython::Frame& frame : thread.frames) {
      holder.stack.push_back(frame.function + " (" + frame.file + ":" + std::to_string(frame.line) + ")");
    }
    return holder;
  }
  return std::nullopt;
}

}  // namespace

std::optional<GilHolder> FindGilHolder(pid_t pid) {
  return Find(pid, [](const cpython::Thread& thread) { return thread.has_gil; });
}

std::optional<GilHolder> FindThread(pid_t pid, pid_t tid) {
  return Find(pid, [tid](const cpython::Thread& thread) { return thread.tid == tid; });
}

}  // namespace probing::daemon
