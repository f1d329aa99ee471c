// A second thread for queries that take long.
//
// DuckDB's own threads are woken for every query and then spin for a while, which costs as much as a small
// query does. So the engine is told to have none (external_threads), and this one lends a hand to those that
// run for longer than that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "query/duckdb_api.h"

namespace probing::query {

// Lifetime: the database outlives it. Start() and Stop() are called in turns, by one thread.
class TaskHelper {
 public:
  TaskHelper(const DuckDb& api, duckdb_database database)
      : thread_([this, &api, database] { Run(api, database); }) {}
  ~TaskHelper() {
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  TaskHelper(const TaskHelper&) = delete;
  TaskHelper& operator=(const TaskHelper&) = delete;

  // Wakes the thread only when it has not been needed for a while.
  void Start() {
    bool asleep = false;
    {
      const std::lock_guard lock(mutex_);
      running_ = true;
      since_ = Clock::now();
      asleep = asleep_;
    }
    if (asleep) changed_.notify_one();
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    running_ = false;
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Run(const DuckDb& api, duckdb_database database) {
    constexpr std::chrono::milliseconds kLong(2);
    constexpr std::chrono::milliseconds kAgain(1);        // no task waits for longer
    constexpr std::chrono::milliseconds kStaysAwake(20);  // the next query may come at once
    constexpr int kTasks = 16;
    std::unique_lock lock(mutex_);
    while (!leaving_) {
      const Clock::duration passed = Clock::now() - since_;
      if (running_ && passed >= kLong) {
        lock.unlock();
        api.execute_tasks(database, kTasks);
        lock.lock();
        if (!leaving_) changed_.wait_for(lock, kAgain);
      } else if (running_ || passed < kStaysAwake) {
        changed_.wait_for(lock, kLong);
      } else {
        asleep_ = true;
        changed_.wait(lock);
        asleep_ = false;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  Clock::time_point since_{};  // it runs, or does not
  bool asleep_ = false;
  bool leaving_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace probing::query
