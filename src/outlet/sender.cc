#include "outlet/sender.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/clock.h"
#include "base/thread.h"

namespace probing::outlet {
namespace {

constexpr std::size_t kStackBytes = 1UL << 20;  // names are looked up on it
constexpr std::int64_t kFirstWaitMs = 1'000;
constexpr std::int64_t kLongestWaitMs = 60'000;
constexpr std::int64_t kGapMs = 100;  // between messages

}  // namespace

struct Sender::State {
  Destination to;
  std::mutex mutex;  // of all that follows
  std::condition_variable changed;
  std::deque<std::shared_ptr<const Message>> queue;  // shared with the thread while it sends one
  std::size_t bytes = 0;
  SenderStatus status;
  bool stop = false;
  bool has_thread = false;

  void DropFront() {
    status.waiting -= queue.front()->items;
    bytes -= queue.front()->body.size();
    queue.pop_front();
  }
};

Sender::Sender(Destination to) : state_(std::make_shared<State>()) { state_->to = std::move(to); }

Sender::~Sender() {
  const std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
}

void Sender::Send(Message message) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.bytes += message.body.size();
  state.status.waiting += message.items;
  state.queue.push_back(std::make_shared<const Message>(std::move(message)));
  while (state.queue.size() > kMostMessages || state.bytes > kMostBytes) {
    state.status.dropped += state.queue.front()->items;
    state.DropFront();
  }
  state.changed.notify_all();
  if (state.has_thread) return;
  auto owned = std::make_unique<std::shared_ptr<State>>(state_);
  const Result<pthread_t> thread = StartQuietThread(Run, owned.get(), kStackBytes, "probing-outlet");
  if (!thread.ok()) {
    state.status.problem = thread.error().message;
    return;
  }
  (void)owned.release();  // the thread's
  pthread_detach(*thread);
  state.has_thread = true;
}

SenderStatus Sender::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

void* Sender::Run(void* state) noexcept {
  const std::unique_ptr<std::shared_ptr<State>> owned(static_cast<std::shared_ptr<State>*>(state));
  Loop(**owned);
  return nullptr;
}

void Sender::Loop(State& state) {
  std::int64_t wait_ms = 0;
  std::unique_lock lock(state.mutex);
  while (true) {
    if (wait_ms > 0)
      state.changed.wait_for(lock, std::chrono::milliseconds(wait_ms), [&] { return state.stop; });
    state.changed.wait(lock, [&] { return state.stop || !state.queue.empty(); });
    if (state.stop) return;
    const std::shared_ptr<const Message> message = state.queue.front();
    lock.unlock();
    const Posted posted = HttpPost(state.to, message->path, message->content_type, message->body);
    lock.lock();
    SenderStatus& status = state.status;
    const bool is_still_there = !state.queue.empty() && state.queue.front() == message;
    if (posted.outcome == Outcome::kTaken) {
      status.sent += message->items;
      status.sent_ns = WallNs();
      wait_ms = kGapMs;
      // It was dropped to make room while it was under way, and has arrived all the same.
      if (!is_still_there) status.dropped -= message->items;
    } else {
      ++status.failed;
      status.problem = posted.problem;
      status.problem_ns = WallNs();
    }
    if (posted.outcome == Outcome::kRefused) {
      if (is_still_there) status.dropped += message->items;
      wait_ms = kFirstWaitMs;
    }
    if (posted.outcome == Outcome::kTryAgain) {
      wait_ms = std::clamp(2 * wait_ms, kFirstWaitMs, kLongestWaitMs);
      if (posted.wait_s > 0) wait_ms = std::max(wait_ms, posted.wait_s * 1000);
    } else if (is_still_there) {
      state.DropFront();
    }
  }
}

}  // namespace probing::outlet
