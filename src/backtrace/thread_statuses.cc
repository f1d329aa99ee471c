#include "backtrace/thread_statuses.h"

#include "base/thread.h"
#include "process/status.h"

namespace probing::backtrace {
namespace {

constexpr int kManyThreads = 32;  // fewer are read sooner than a thread is started

}  // namespace

void ThreadStatuses::ReadAside() {
  const auto status = process::ReadStatus(pid_);
  if (!status.ok() || status->threads < kManyThreads) return;
  const auto body = [](void* self) noexcept -> void* {
    static_cast<ThreadStatuses*>(self)->ReadAll();
    return nullptr;
  };
  if (const auto started = StartQuietThread(body, this, kSmallStackBytes, "probing-status"); started.ok()) {
    thread_ = *started;
  }
}

void ThreadStatuses::ReadAll() {
  const auto tids = process::ListThreads(pid_);
  for (const pid_t tid : tids.ok() ? *tids : std::vector<pid_t>{}) {
    if (auto status = reader_.Read(tid); status.ok()) known_.emplace(tid, std::move(*status));
  }
}

void ThreadStatuses::Finish() {
  if (thread_) pthread_join(*thread_, nullptr);
  thread_.reset();
}

Result<process::ThreadStatus> ThreadStatuses::Get(pid_t tid) const {
  const auto found = known_.find(tid);
  return found != known_.end() ? Result<process::ThreadStatus>(found->second) : reader_.Read(tid);
}

}  // namespace probing::backtrace
