#include "process/held_process.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "process/interrupted_call.h"
#include "process/status.h"

namespace probing::process {
namespace {

bool IsStoppedByJobControl(pid_t pid) {
  const auto status = ReadStatus(pid);
  return status.ok() && status->state == 'T';
}

// A thread that has ended stays in the list for a while, the main thread until all have ended.
bool HasEnded(pid_t tid) {
  const auto status = ReadStatus(tid);
  return !status.ok() || status->ended();
}

void LetGo(TracedThread& thread) {
  auto registers = thread.ReadRegisters();
  const bool ended_by_stop =
      registers.ok() && static_cast<std::int64_t>(registers->rax) == -EINTR && WasInterrupted(*registers);
  if (ended_by_stop) {
    const auto signal = thread.HasDeliverableSignal();
    if (signal.ok() && !*signal) {
      RestartInterruptedCall(*registers);
      (void)thread.WriteRegisters(*registers);
    }
  }
  (void)thread.Detach();  // fails only when the thread has been killed
}

}  // namespace

Result<HeldProcess> HeldProcess::Hold(pid_t pid, const Deadline& deadline) {
  HeldProcess held;
  if (IsStoppedByJobControl(pid)) return held;
  held.since_ns_ = MonotonicNs();
  // Threads that run may start others: done when a whole round finds none.
  while (true) {
    const auto count = held.HoldNewThreads(pid, deadline);
    if (!count.ok() && IsStoppedByJobControl(pid)) break;
    if (!count.ok()) return count.error();
    if (*count == 0) break;
  }
  return held;
}

Result<std::size_t> HeldProcess::HoldNewThreads(pid_t pid, const Deadline& deadline) {
  ASSIGN_OR_RETURN(const std::vector<pid_t> tids, ListThreads(pid));
  const std::size_t before = threads_.size();
  for (const pid_t tid : tids) {
    const bool is_held = std::any_of(threads_.begin(), threads_.end(),
                                     [&](const TracedThread& thread) { return thread.tid() == tid; });
    if (!is_held) RETURN_IF_ERROR(HoldThread(pid, tid, deadline));
  }
  return threads_.size() - before;
}

Result<void> HeldProcess::HoldThread(pid_t pid, pid_t tid, const Deadline& deadline) {
  auto thread = TracedThread::Seize(tid);
  if (!thread.ok() && HasEnded(tid)) return {};
  if (!thread.ok()) return std::move(thread.error());
  auto stopped = thread->Interrupt(deadline);
  if (stopped.ok()) {
    threads_.push_back(std::move(*thread));
    return {};
  }
  if (stopped.error().code == Code::kNotFound || HasEnded(tid)) return {};
  stopped.error().message = "cannot hold process " + std::to_string(pid) + ": " + stopped.error().message;
  return stopped;
}

std::int64_t HeldProcess::Release() {
  if (threads_.empty()) return 0;
  for (TracedThread& thread : threads_) LetGo(thread);
  threads_.clear();
  return MonotonicNs() - since_ns_;
}

}  // namespace probing::process
