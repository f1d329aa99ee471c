#include "observe/stacks/last_stacks.h"

#include <array>
#include <string_view>

#include "base/clock.h"
#include "observe/host/series_table.h"

namespace probing::observe {
namespace {

constexpr std::int64_t kCostFactor = 1000;
constexpr std::int64_t kNoPythonNs = 5'000'000'000;  // until it is looked for again
constexpr int kAttempts = 5;
constexpr std::size_t kMaxDepth = 256;
constexpr std::uint64_t kRows = 10'000;
constexpr std::array<std::string_view, 7> kColumns{"tid",  "thread_name", "depth",     "func",
                                                   "file", "lineno",      "frame_type"};

}  // namespace

void LastStacks::Look() {
  if (MonotonicNs() < next_look_ns_) return;
  if (!interpreter_) {
    Result<cpython::Interpreter> attached = cpython::Interpreter::Attach(pid_);
    if (!attached.ok()) {
      next_look_ns_ = MonotonicNs() + kNoPythonNs;
      return;
    }
    interpreter_.emplace(std::move(*attached));
  }
  const std::int64_t begun_ns = MonotonicNs();
  Result<cpython::Snapshot> snapshot =
      interpreter_->Read({.max_depth = kMaxDepth, .attempts = kAttempts, .skip = nullptr});
  if (snapshot.ok()) {
    const std::int64_t now_ns = WallNs();
    std::map<pid_t, Seen> seen;
    for (cpython::Thread& thread : snapshot->threads) {
      const auto before = threads_.find(thread.tid);
      if (!thread.torn && !thread.frames.empty()) {
        seen[thread.tid] = {now_ns, std::move(thread)};
      } else if (before != threads_.end()) {  // it was too fast; an older look is better than none
        seen[thread.tid] = std::move(before->second);
      }
    }
    // A process on its way out has no threads any more; those before are what somebody wants to see.
    if (!seen.empty()) threads_ = std::move(seen);
  }
  const std::int64_t ended_ns = MonotonicNs();
  // While nothing was seen yet the next look may come at once.
  next_look_ns_ = threads_.empty() ? ended_ns : ended_ns + kCostFactor * (ended_ns - begun_ns);
}

Result<void> LastStacks::Write(ring::Arena& arena) const {
  if (threads_.empty()) return {};
  ASSIGN_OR_RETURN(SeriesTable table, SeriesTable::Add(arena, "crash.stacks", kColumns, kRows));
  for (const auto& [tid, seen] : threads_) {
    const cpython::Thread& thread = seen.thread;
    const std::string_view name = thread.python_name.empty() ? thread.name : thread.python_name;
    std::int64_t depth = 0;
    for (const cpython::Frame& frame : thread.frames) {
      const ring::Cell line = frame.line == 0 ? ring::Cell::Null() : ring::Cell::Int(frame.line);
      table.Write(seen.at_ns, std::array<ring::Cell, kColumns.size()>{
                                  ring::Cell::Int(tid), ToCell(name), ring::Cell::Int(depth++),
                                  ToCell(std::string_view(frame.function)),
                                  ToCell(std::string_view(frame.file)), line, ring::Cell::String("Python")});
    }
  }
  return {};
}

}  // namespace probing::observe
