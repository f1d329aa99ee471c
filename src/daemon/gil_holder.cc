#include "daemon/gil_holder.h"

#include "cpython/interpreter.h"

namespace probing::daemon {

std::optional<GilHolder> FindGilHolder(pid_t pid) {
  constexpr std::size_t kShownFrames = 12;
  Result<cpython::Interpreter> interpreter = cpython::Interpreter::Attach(pid);
  if (!interpreter.ok()) return std::nullopt;
  const Result<cpython::Snapshot> snapshot = interpreter->Read({.max_depth = kShownFrames});
  if (!snapshot.ok()) return std::nullopt;
  for (const cpython::Thread& thread : snapshot->threads) {
    if (!thread.has_gil) continue;
    GilHolder holder{thread.tid, thread.name, {}};
    for (const cpython::Frame& frame : thread.frames) {
      holder.stack.push_back(frame.function + " (" + frame.file + ":" + std::to_string(frame.line) + ")");
    }
    return holder;
  }
  return std::nullopt;
}

}  // namespace probing::daemon
