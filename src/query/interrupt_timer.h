// Interrupts a query that takes too long. DuckDB has no statement timeout of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "query/duckdb_api.h"

namespace probing::query {

// From construction to destruction. An interrupt that arrives between two phases of a query is
// forgotten by the engine, so it is repeated until the query has ended.
class InterruptTimer {
 public:
  InterruptTimer(const DuckDb& api, duckdb_connection connection, std::int64_t timeout_ms)
      : thread_([this, &api, connection, timeout_ms] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return done_; })) return;
          fired_ = true;
          do {
            api.interrupt(connection);
          } while (!ended_.wait_for(lock, std::chrono::milliseconds(5), [this] { return done_; }));
        }) {}
  ~InterruptTimer() { Stop(); }
  InterruptTimer(const InterruptTimer&) = delete;
  InterruptTimer& operator=(const InterruptTimer&) = delete;

  // No interrupt comes after this: what ends the transaction must not be interrupted.
  void Stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  bool fired() const { return fired_; }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::atomic<bool> fired_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace probing::query
