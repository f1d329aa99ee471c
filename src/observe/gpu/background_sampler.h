// BackgroundSampler: takes looks on a thread of its own, because what is looked at may block for ever (a
// driver in trouble) or for long. At most a twentieth of the time is spent looking: after a look of 50 ms the
// next one begins a second later at the earliest.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"

namespace probing::observe {

// Thread-safe.
template <typename Look>
class BackgroundSampler {
 public:
  struct Sample {
    std::int64_t time_ns = 0;  // wall time
    std::optional<Look> look;
  };
  using Take = std::function<Look()>;
  // Called on the thread when the first sample is asked for. What it returns takes the looks; an empty one
  // says that there is nothing to look at: the thread ends.
  using Open = std::function<Take()>;

  explicit BackgroundSampler(Open open) : shared_(std::make_shared<Shared>()) {
    shared_->open = std::move(open);
  }
  // Does not wait for a look that is under way.
  ~BackgroundSampler() {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_all();
  }
  BackgroundSampler(const BackgroundSampler&) = delete;
  BackgroundSampler& operator=(const BackgroundSampler&) = delete;

  // What was seen since the last call, if anything; and has another look taken. Never blocks.
  Sample TakeLast() {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->started) {
      shared_->started = true;
      auto* argument = new std::shared_ptr<Shared>(shared_);  // NOLINT: the thread takes it over
      const auto thread = StartQuietThread(&RunThread, argument, kStackBytes, "probing-device");
      if (thread.ok()) {
        pthread_detach(*thread);
      } else {
        delete argument;  // NOLINT
      }
    }
    shared_->wanted = true;
    shared_->changed.notify_all();
    return std::exchange(shared_->last, Sample{});
  }

  // For how long the look (or the opening) that is under way has lasted; 0 when there is none.
  std::int64_t busy_ns() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->busy_since_ns == 0 ? 0 : MonotonicNs() - shared_->busy_since_ns;
  }

 private:
  static constexpr std::size_t kStackBytes = 4U << 20;  // the driver's code is not ours to measure
  static constexpr int kRest = 19;                      // times as long as the look took

  struct Shared {
    Open open;
    std::mutex mutex;
    std::condition_variable changed;
    bool started = false;
    bool wanted = false;
    bool stop = false;
    std::int64_t busy_since_ns = 0;
    Sample last;
  };

  static void* RunThread(void* argument) {
    const std::unique_ptr<std::shared_ptr<Shared>> shared(static_cast<std::shared_ptr<Shared>*>(argument));
    Run(**shared);
    return nullptr;
  }

  static void Run(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    shared.busy_since_ns = MonotonicNs();
    lock.unlock();
    const Take take = shared.open();
    lock.lock();
    shared.busy_since_ns = 0;
    if (!take) return;
    std::int64_t next_ns = 0;
    while (true) {
      shared.changed.wait(lock, [&] { return shared.wanted || shared.stop; });
      while (!shared.stop && MonotonicNs() < next_ns)
        shared.changed.wait_for(lock, std::chrono::nanoseconds(next_ns - MonotonicNs()));
      if (shared.stop) return;
      shared.wanted = false;
      const std::int64_t begin_ns = shared.busy_since_ns = MonotonicNs();
      lock.unlock();
      Sample sample{WallNs(), take()};
      lock.lock();
      const std::int64_t end_ns = MonotonicNs();
      shared.busy_since_ns = 0;
      next_ns = end_ns + kRest * (end_ns - begin_ns);
      shared.last = std::move(sample);
    }
  }

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this by one look
};

}  // namespace probing::observe
