#include <unordered_set>

#include "backtrace/backtrace.h"
#include "backtrace/thread_statuses.h"
#include "base/text.h"
#include "process/status.h"

namespace probing::backtrace {

bool IsShown(const ShownThread& thread, const Selection& selection) {
  if (selection.tid) return thread.kernel.tid == *selection.tid;
  return selection.all || !thread.python.frames.empty() || thread.python.torn || thread.python.has_gil;
}

std::vector<ShownThread> Select(pid_t pid, const cpython::Snapshot& snapshot, const Options& options,
                                const ThreadStatuses& statuses) {
  const Selection& selection = options.selection;
  std::vector<ShownThread> threads;
  std::unordered_set<pid_t> known;
  for (const cpython::Thread& thread : snapshot.threads) {
    known.insert(thread.tid);
    ShownThread shown{thread, {.tid = thread.tid, .name = thread.name}, true};
    if (!IsShown(shown, selection)) continue;
    if (auto kernel = statuses.Get(thread.tid); kernel.ok()) shown.kernel = std::move(*kernel);
    threads.push_back(std::move(shown));
  }
  if (!selection.all && !selection.tid) return threads;
  const auto tids = process::ListThreads(pid);
  for (const pid_t tid : tids.ok() ? *tids : std::vector<pid_t>{}) {
    if (known.contains(tid) || (selection.tid && *selection.tid != tid)) continue;
    if (auto kernel = statuses.Get(tid); kernel.ok()) threads.push_back({{}, std::move(*kernel), false});
  }
  return threads;
}

void AddTasks(Picture& picture, const Selection& selection) {
  for (const cpython::Task& task : picture.snapshot.tasks) {
    if (task.tid == 0 && !selection.tid) picture.other_tasks.push_back(task);
    for (ShownThread& thread : picture.threads) {
      if (task.tid != 0 && thread.kernel.tid == task.tid) thread.tasks.push_back(task);
    }
  }
  for (const cpython::Greenlet& greenlet : picture.snapshot.greenlets) {
    if (greenlet.tid == 0 && !selection.tid) picture.other_greenlets.push_back(greenlet);
    for (ShownThread& thread : picture.threads) {
      if (greenlet.tid != 0 && thread.kernel.tid == greenlet.tid) thread.greenlets.push_back(greenlet);
    }
  }
}

Result<int> DepthOf(const std::string& text) {
  int depth = 0;
  if (ParseNumber(text, depth) && depth >= 0 && depth <= cpython::kMaxValueDepth) return depth;
  return Error{
      Code::kUsage,
      "depth is a number from 0 to " + std::to_string(cpython::kMaxValueDepth) + ", not '" + text + "'", ""};
}

Result<void> CheckShown(const Picture& picture, const Options& options) {
  if (!options.selection.tid || !picture.threads.empty()) return {};
  return Error{
      Code::kFailed,
      "process " + std::to_string(picture.pid) + " has no thread " + std::to_string(*options.selection.tid),
      "`probing backtrace --all` shows them"};
}

}  // namespace probing::backtrace
