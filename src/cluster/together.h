// Many questions at once, and one deadline.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace probing::cluster {

// What each of the tasks returned, in their order; nothing for those that have not by the deadline. Each
// runs on a thread of its own. A late one is left to end by itself (to look up a name takes as long as it
// takes), so a task owns what it uses.
template <typename T>
std::vector<std::optional<T>> Together(std::vector<std::function<T()>> tasks, const Deadline& deadline) {
  struct State {  // shared by all threads and this one
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::optional<T>> results;
    std::size_t left = 0;
    bool is_over = false;
  };
  const auto state = std::make_shared<State>();
  state->results.resize(tasks.size());
  state->left = tasks.size();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    auto run = [state, i, task = std::move(tasks[i])] {
      std::optional<T> result;
      try {
        result.emplace(task());
      } catch (const std::exception&) {  // out of memory: as if it had not answered
      }
      const std::lock_guard lock(state->mutex);
      if (!state->is_over) state->results[i] = std::move(result);
      if (--state->left == 0) state->changed.notify_all();
    };
    try {
      std::thread(std::move(run)).detach();
    } catch (const std::system_error&) {  // no more threads: the rest cannot be asked
      const std::lock_guard lock(state->mutex);
      state->left -= tasks.size() - i;
      break;
    }
  }
  std::unique_lock lock(state->mutex);
  state->changed.wait_for(lock, std::chrono::nanoseconds(deadline.left_ns()),
                          [&] { return state->left == 0; });
  state->is_over = true;
  return std::move(state->results);
}

}  // namespace probing::cluster
