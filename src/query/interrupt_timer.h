// Interrupts queries that take too long. DuckDB has no statement timeout of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "query/duckdb_api.h"

namespace probing::query {

// One thread for all queries of a connection, one after the other: a thread for each would cost more
// than a small query. It is woken only when a query's deadline is nearer than what it sleeps for
// already, so queries with the same limit do not wake it at all.
class InterruptTimer {
 public:
  InterruptTimer(const DuckDb& api, duckdb_connection connection)
      : thread_([this, &api, connection] { Run(api, connection); }) {}
  ~InterruptTimer() {
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  InterruptTimer(const InterruptTimer&) = delete;
  InterruptTimer& operator=(const InterruptTimer&) = delete;

  void Start(std::int64_t timeout_ms) {
    bool too_late = false;
    {
      const std::lock_guard lock(mutex_);
      fired_ = false;
      deadline_ = Clock::now() + std::chrono::milliseconds(timeout_ms);
      too_late = deadline_ < sleeps_until_;
    }
    if (too_late) changed_.notify_one();
  }

  // Whether the time ran out. No interrupt comes after this: what ends the transaction must not be
  // interrupted.
  bool Stop() {
    const std::lock_guard lock(mutex_);
    deadline_ = Clock::time_point::max();
    return fired_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // An interrupt that arrives between two phases of a query is forgotten by the engine, so it is
  // repeated until the query has ended.
  void Run(const DuckDb& api, duckdb_connection connection) {
    constexpr std::chrono::milliseconds kAgain(5);
    std::unique_lock lock(mutex_);
    while (!leaving_) {
      const Clock::time_point now = Clock::now();
      sleeps_until_ = deadline_;
      if (deadline_ <= now) {
        fired_ = true;
        api.interrupt(connection);
        sleeps_until_ = now + kAgain;
      }
      if (sleeps_until_ == Clock::time_point::max())
        changed_.wait(lock);
      else
        changed_.wait_until(lock, sleeps_until_);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point sleeps_until_ = Clock::time_point::max();
  bool fired_ = false;
  bool leaving_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace probing::query
