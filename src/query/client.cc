#include "query/client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "query/started_query.h"
#include "query/worker_process.h"

namespace probing::query {
namespace {

// How soon one that waits notices that nobody wants it any more.
constexpr std::int64_t kCancelLookMs = 100;

SqlError FromError(const Error& error) { return {error.code, error.message, error.hint}; }

}  // namespace

QueryClient::QueryClient(ClientOptions options) : options_(std::move(options)) {}

QueryClient::~QueryClient() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  freed_.notify_all();
  leaving_.notify_all();
  if (reaper_.joinable()) reaper_.join();
}

QueryAnswer QueryClient::Run(const QueryRequest& request, const Output& output) {
  QueryAnswer answer;
  // A worker that has been idle may have ended meanwhile; it never began this query, so another one
  // may. A fresh one is not tried again.
  for (int attempt = 0; attempt < 3; ++attempt) {
    Result<std::unique_ptr<WorkerProcess>> worker =
        Take(request.limits.memory_bytes, Deadline::AfterMs(kQueueMs), request.cancellation.get());
    if (!worker.ok()) {
      answer.error = FromError(worker.error());
      return answer;
    }
    const WorkerProcess::Fate fate = (*worker)->Ask(request, output, answer);
    GiveBack(fate == WorkerProcess::Fate::kAnswered ? std::move(*worker) : nullptr);
    if (fate != WorkerProcess::Fate::kNeverBegan) return answer;
  }
  answer.error =
      SqlError{Code::kFailed, "query workers end before they answer", "probingd's log may say why"};
  return answer;
}

Result<void> QueryClient::Warm(std::int64_t memory_bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerProcess> worker,
                   Take(memory_bytes, Deadline::AfterMs(kQueueMs), nullptr));
  GiveBack(std::move(worker));
  return {};
}

void QueryClient::Renew() {
  const std::lock_guard lock(mutex_);
  ++generation_;
}

std::vector<std::int64_t> QueryClient::worker_pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> pids;
  for (const auto& worker : idle_) pids.push_back(worker->pid());
  return pids;
}

// The memory limit of a worker cannot change, nor what it has read when it started.
bool QueryClient::FirstIdleFits(std::int64_t memory_bytes) const {
  return idle_.front()->memory_bytes() == memory_bytes && idle_.front()->generation == generation_;
}

bool QueryClient::Fits(const WorkerProcess& worker, const QueryRequest& request) const {
  const std::lock_guard lock(mutex_);
  return worker.memory_bytes() == request.limits.memory_bytes && worker.generation == generation_;
}

std::unique_ptr<WorkerProcess> QueryClient::TakeFirstIdle() {
  std::unique_ptr<WorkerProcess> worker = std::move(idle_.front());
  idle_.pop_front();
  return worker;
}

std::unique_ptr<StartedQuery> QueryClient::Start(const QueryRequest& request) {
  std::unique_lock lock(mutex_);
  if (busy_ >= options_.max_workers || idle_.empty() || !FirstIdleFits(request.limits.memory_bytes))
    return nullptr;
  ++busy_;
  auto started = std::make_unique<StartedQuery>(*this, request, TakeFirstIdle());
  lock.unlock();
  return started->Send() ? std::move(started) : nullptr;
}

bool QueryClient::is_full() const {
  const std::lock_guard lock(mutex_);
  return busy_ >= options_.max_workers;
}

Result<std::unique_ptr<WorkerProcess>> QueryClient::Take(std::int64_t memory_bytes, const Deadline& deadline,
                                                         const Cancellation* cancellation) {
  std::unique_lock lock(mutex_);
  const auto is_free = [this] { return busy_ < options_.max_workers || closing_; };
  const auto is_cancelled = [&] { return cancellation != nullptr && cancellation->cancelled(); };
  while (!is_free() && !is_cancelled() && !deadline.passed())
    freed_.wait_for(lock, std::chrono::milliseconds(kCancelLookMs), is_free);
  if (is_cancelled()) return Error{Code::kFailed, CancelledError().message, ""};
  if (!is_free()) {
    const SqlError error = QueueError();
    return Error{error.code, error.message, error.hint};
  }
  ++busy_;
  while (!idle_.empty()) {
    const bool fits = FirstIdleFits(memory_bytes);
    std::unique_ptr<WorkerProcess> worker = TakeFirstIdle();
    if (fits) return worker;
  }
  const std::uint64_t generation = generation_;
  lock.unlock();
  Result<std::unique_ptr<WorkerProcess>> worker =
      WorkerProcess::Start(options_.program, options_.arguments, {memory_bytes, options_.view_directory});
  if (worker.ok())
    (*worker)->generation = generation;
  else
    GiveBack(nullptr);
  return worker;
}

void QueryClient::GiveBack(std::unique_ptr<WorkerProcess> worker) {
  const std::lock_guard lock(mutex_);
  --busy_;
  if (worker != nullptr) {
    worker->idle_since_ns = MonotonicNs();
    idle_.push_front(std::move(worker));
    if (!reaper_.joinable()) reaper_ = std::thread([this] { EndIdleWorkers(); });
  }
  freed_.notify_one();
}

void QueryClient::EndIdleWorkers() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    std::list<std::unique_ptr<WorkerProcess>> ended;
    std::int64_t next_ns = options_.idle_ms * 1'000'000;
    for (auto it = idle_.begin(); it != idle_.end();) {
      const std::int64_t left_ns = (*it)->idle_since_ns + options_.idle_ms * 1'000'000 - MonotonicNs();
      const auto current = it++;
      if (left_ns <= 0)
        ended.splice(ended.end(), idle_, current);
      else
        next_ns = std::min(next_ns, left_ns);
    }
    if (!ended.empty()) {
      lock.unlock();
      ended.clear();  // waits for each process
      lock.lock();
      continue;
    }
    leaving_.wait_for(lock, std::chrono::nanoseconds(next_ns));
  }
}

}  // namespace probing::query
