#include <algorithm>
#include <charconv>

#include "cli/backtrace.h"
#include "process/status.h"

namespace probing::cli {

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

}  // namespace probing::cli
