#include "daemon/stall_thread.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace probing::daemon {
namespace {

constexpr std::int64_t kPatienceNs = 500'000'000;  // with a process that cannot be read for the moment
constexpr int kAttachTries = 60;                   // a program may load Python long after it started
constexpr std::int64_t kBetweenTriesUs = 100'000;

}  // namespace

struct StallThread::State {
  std::atomic<bool> stop = false;
  std::atomic<bool> running = true;
  std::mutex mutex;  // of `watcher`
  std::optional<observe::StallWatcher> watcher;
};

StallThread::StallThread(pid_t pid, const observe::StallOptions& options)
    : state_(std::make_shared<State>()) {
  std::thread([state = state_, pid, options] { Run(state, pid, options); }).detach();
}

StallThread::~StallThread() {
  if (state_) state_->stop = true;
}

void StallThread::Run(const std::shared_ptr<State>& state, pid_t pid,
                      observe::StallOptions options) noexcept {
  for (int tries = 0; tries < kAttachTries && !state->stop && !state->watcher; ++tries) {
    auto watcher = observe::StallWatcher::Attach(pid, options);
    if (watcher.ok()) {
      const std::lock_guard lock(state->mutex);
      state->watcher.emplace(std::move(*watcher));
      break;
    }
    if (watcher.error().code != Code::kFailed) break;
    SleepUs(kBetweenTriesUs);
  }
  std::int64_t failing_since_ns = 0;
  while (state->watcher && !state->stop) {
    {
      const std::lock_guard lock(state->mutex);
      const Result<void> looked = state->watcher->Look();
      if (looked.ok()) {
        failing_since_ns = 0;
      } else if (failing_since_ns == 0) {
        failing_since_ns = MonotonicNs();
      }
      const bool is_lasting = failing_since_ns != 0 && MonotonicNs() - failing_since_ns > kPatienceNs;
      if (!looked.ok() && (looked.error().code != Code::kFailed || is_lasting)) break;
    }
    state->watcher->Wait();
  }
  state->running = false;
}

bool StallThread::is_running() const { return state_->running; }

std::vector<observe::Stall> StallThread::Take() {
  const std::lock_guard lock(state_->mutex);
  return state_->watcher ? state_->watcher->Take() : std::vector<observe::Stall>{};
}

void StallThread::Explain(observe::Stall& stall, std::int64_t usual_ns) const {
  const std::lock_guard lock(state_->mutex);
  if (state_->watcher) state_->watcher->Explain(stall, usual_ns);
}

void StallThread::LookCloser(std::int64_t until_ns) {
  const std::lock_guard lock(state_->mutex);
  if (state_->watcher) state_->watcher->LookCloser(until_ns);
}

}  // namespace probing::daemon
