#include "process/held_process.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "process/blocked_call.h"
#include "process/held_thread.h"
#include "process/status.h"

namespace probing::process {
namespace {

// So long a wait may have lasted whose time-out is begun anew.
constexpr std::int64_t kLatelyNs = 20'000'000;

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
  if (const auto registers = thread.ReadRegisters(); registers.ok())
    (void)RepairInterruptedCall(thread, *registers);
  (void)thread.Detach();  // fails only when the thread has been killed
}

}  // namespace

bool Sleepers::HasRunLately(pid_t tid, std::uint64_t times_run) {
  const std::int64_t now_ns = MonotonicNs();
  const auto [known, is_new] = seen_.try_emplace(tid, Seen{times_run, now_ns});
  if (is_new || known->second.times_run == times_run) {
    known->second.at_ns = now_ns;  // it still had that count, so whatever it does next begins after now
    return false;
  }
  const bool is_young = now_ns - known->second.at_ns < kLatelyNs;
  known->second = {times_run, now_ns};
  return is_young;
}

Result<HeldProcess> HeldProcess::Hold(pid_t pid, Sleepers& sleepers, const Deadline& deadline) {
  HeldProcess held(pid);
  if (IsStoppedByJobControl(pid)) return held;
  held.since_ns_ = MonotonicNs();
  // Threads that run may start others: done when a whole round finds none.
  while (true) {
    const auto count = held.HoldNewThreads(sleepers, deadline);
    if (!count.ok() && IsStoppedByJobControl(pid)) break;
    if (!count.ok()) return count.error();
    if (*count == 0) break;
  }
  return held;
}

Result<std::size_t> HeldProcess::HoldNewThreads(Sleepers& sleepers, const Deadline& deadline) {
  ASSIGN_OR_RETURN(const std::vector<pid_t> tids, ListThreads(pid_));
  const std::size_t before = threads_.size() + asleep_.size();
  for (const pid_t tid : tids) {
    const bool is_held = std::any_of(threads_.begin(), threads_.end(),
                                     [&](const TracedThread& thread) { return thread.tid() == tid; });
    if (is_held || asleep_.contains(tid) || LeaveAsleep(tid, sleepers)) continue;
    RETURN_IF_ERROR(HoldThread(tid, deadline));
  }
  return threads_.size() + asleep_.size() - before;
}

bool HeldProcess::LeaveAsleep(pid_t tid, Sleepers& sleepers) {
  const auto times_run = ReadTimesRun(pid_, tid);  // before the look at what it does: see ReadTimesRun()
  if (!times_run) return false;
  const auto call = ReadBlockedCall(pid_, tid);
  if (!call.ok() || SurvivesStop(pid_, *call) || sleepers.HasRunLately(tid, *times_run)) return false;
  asleep_[tid] = *times_run;
  return true;
}

bool HeldProcess::StoodStill() const {
  return std::all_of(asleep_.begin(), asleep_.end(), [&](const auto& sleeper) {
    const auto& [tid, times_run] = sleeper;
    return ReadTimesRun(pid_, tid) == times_run;
  });
}

Result<void> HeldProcess::HoldThread(pid_t tid, const Deadline& deadline) {
  auto thread = TracedThread::Seize(tid);
  if (!thread.ok() && HasEnded(tid)) return {};
  if (!thread.ok()) return std::move(thread.error());
  auto stopped = thread->Interrupt(deadline);
  if (stopped.ok()) {
    threads_.push_back(std::move(*thread));
    return {};
  }
  if (stopped.error().code == Code::kNotFound || HasEnded(tid)) return {};
  stopped.error().message = "cannot hold process " + std::to_string(pid_) + ": " + stopped.error().message;
  return stopped;
}

std::int64_t HeldProcess::Release() {
  if (threads_.empty()) return 0;
  for (TracedThread& thread : threads_) LetGo(thread);
  threads_.clear();
  return MonotonicNs() - since_ns_;
}

}  // namespace probing::process
