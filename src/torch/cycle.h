// UpdateCycle: which of the calls that update parameters ends a training step.
//
// A job may have several optimizers: of a generator and its critic, one for each layer, one for each group
// that a wrapper steps in turn. One of them ends the step: the last one of those that step without a backward
// pass in between; of those that take turns, the one that is called least often (a generator after five
// updates of its critic), where that is not less than once in kMostPeriod. Optimizers are only compared,
// never touched.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace probing::torch {

class UpdateCycle {
 public:
  // A backward pass was made.
  void Worked() { worked_ = ever_worked_ = true; }

  // The training thread has fetched a batch: an iteration of the job begins here.
  void Fetched() {
    if (last_ == nullptr || last_ == end_ || period_ != 1 || was_moved_ || SinceEnd(last_) != 1) return;
    was_moved_ = true;
    End(last_, 1);
  }

  // Whether this update of parameters ends a step.
  bool Updated(const void* optimizer) {
    if (!ever_worked_ && ++unsure_ <= kMostUnsure) return false;
    const bool ends = Ends(optimizer);
    last_ = optimizer;
    if (ends) {
      alone_ = true;
      worked_ = false;
      ++ends_;
      ++rounds_;
      ++run_;
    }
    Known& known = known_[optimizer];
    known.seen_at = ends_;
    return ends;
  }

  bool empty() const { return end_ == nullptr; }

 private:
  static constexpr std::int64_t kMostPeriod = 8;
  // Calls before the first backward pass: tracing may have begun in the middle of an update.
  static constexpr int kMostUnsure = 32;
  static constexpr std::size_t kMostKnown = 4096;

  struct Known {
    std::int64_t seen_at = -1;    // ends_ when it was called last; −1: never
    std::int64_t counted_at = 0;  // rounds_ when `times` began to be counted
    std::int64_t times = 0;       // that it was called since
    bool was_end = false;
  };

  bool Ends(const void* optimizer) {
    if (known_.size() > kMostKnown) known_.clear();
    if (end_ == nullptr) {
      End(optimizer, 1);
      return true;
    }
    const bool same_update = ever_worked_ && !worked_;  // a step has ended, and no backward pass came since
    if (optimizer == end_) {
      if (same_update) return false;  // one update in several calls
      if (alone_) period_ = 1;
      return true;
    }
    Known& known = known_[optimizer];
    const std::int64_t gap = known.seen_at < 0 ? run_ : ends_ - known.seen_at;
    if (same_update) {
      // The update goes on behind what ended it; unless this one joins it only now and then.
      if (gap <= 1 || (known.seen_at < 0 && run_ <= 2)) End(optimizer, period_);
      return false;
    }
    alone_ = false;
    if (known.counted_at != rounds_) known = {known.seen_at, rounds_, 0, known.was_end};
    ++known.times;
    if (known.times == 1 && gap <= kMostPeriod && (gap > 1 || (gap == 1 && !known.was_end))) {
      End(optimizer, gap);
      return false;
    }
    const std::int64_t most = period_ == 1 ? 1 : 2 * period_ + 2;
    if (known.times <= most) return false;
    End(optimizer, 1);  // the one that ended steps is not called any more
    return true;
  }

  void End(const void* optimizer, std::int64_t period) {
    if (end_ != nullptr) known_[end_].was_end = true;
    end_ = optimizer;
    period_ = period;
    run_ = 0;
    ++rounds_;
    alone_ = false;
  }

  std::int64_t SinceEnd(const void* optimizer) const {
    const auto found = known_.find(optimizer);
    return found != known_.end() && found->second.counted_at == rounds_ ? found->second.times : 0;
  }

  std::unordered_map<const void*, Known> known_;
  const void* end_ = nullptr;   // the one that ends a step
  const void* last_ = nullptr;  // that was called last
  std::int64_t period_ = 1;     // so often others are called between two steps of end_
  std::int64_t ends_ = 0;       // steps that have ended
  std::int64_t rounds_ = 0;     // the same, and changes of end_
  std::int64_t run_ = 0;        // of these by end_ since it is the one
  bool alone_ = false;          // no other one was called since the last end
  bool worked_ = false;         // a backward pass since the last end
  bool ever_worked_ = false;
  bool was_moved_ = false;
  int unsure_ = 0;
};

}  // namespace probing::torch
