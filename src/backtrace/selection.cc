#include <algorithm>

#include "backtrace/backtrace.h"
#include "process/status.h"

namespace probing::backtrace {

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

Result<void> CheckShown(const Picture& picture, const Options& options) {
  if (!options.selection.tid || !picture.threads.empty()) return {};
  return Error{
      Code::kFailed,
      "process " + std::to_string(picture.pid) + " has no thread " + std::to_string(*options.selection.tid),
      "`probing backtrace --all` shows them"};
}

}  // namespace probing::backtrace
