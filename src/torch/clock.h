// StepClock: the monotonic clock, read by the processor's own counter.
//
// clock_gettime() takes 20 ns in a loop. Between the parts of a training step, which push its code and data
// out of the caches, it takes 300, and was more than half of what timing a step took. The counter is an
// instruction. What it counts is compared with the clock at the end of every step; as long as they disagree,
// the clock is read. With the GIL.
#pragma once

#include <cmath>
#include <cstdint>

#include "arch/native.h"
#include "base/clock.h"

namespace probing::torch {

class StepClock {
 public:
  std::int64_t NowNs() const {
    if (ns_per_tick_ == 0) return MonotonicNs();
    return anchor_.ns +
           static_cast<std::int64_t>(static_cast<double>(arch::ReadTicks() - anchor_.ticks) * ns_per_tick_);
  }

  // A step ends: from here on is counted.
  void Anchor() {
    constexpr int kTries = 3;
    constexpr std::int64_t kTogetherNs = 2'000;
    for (int i = 0; i < kTries; ++i) {
      const Moment now{MonotonicNs(), arch::ReadTicks()};
      if (MonotonicNs() - now.ns < kTogetherNs) return Anchor(now);
    }
    ns_per_tick_ = 0;  // put aside between two readings, again and again: the clock, for this step
    first_ = {};
  }

  struct Moment {
    std::int64_t ns = 0;
    std::int64_t ticks = 0;
  };
  // The same at a moment that is given.
  void Anchor(Moment now) {
    anchor_ = now;
    if (first_.ns == 0) first_ = now;
    const auto passed_ns = static_cast<double>(now.ns - first_.ns);
    const auto passed_ticks = static_cast<double>(now.ticks - first_.ticks);
    if (failures_ >= kMostFailures || passed_ns < kLeastNs) return;
    const double found = passed_ticks > 0 ? passed_ns / passed_ticks : 0;
    const bool agrees = found > 0 && (ns_per_tick_ == 0 || std::abs(found / ns_per_tick_ - 1) < kTolerated);
    if (!agrees && ns_per_tick_ != 0) ++failures_;  // another processor's, or the machine was asleep
    ns_per_tick_ = agrees ? found : 0;
    if (!agrees || passed_ns > kMostNs) first_ = now;
  }

  bool counts() const { return ns_per_tick_ != 0; }

 private:
  static constexpr double kLeastNs = 10e6, kMostNs = 10e9;
  static constexpr double kTolerated = 1e-3;
  static constexpr int kMostFailures = 100;

  Moment anchor_, first_;
  double ns_per_tick_ = 0;  // 0: not known, or not to be relied on
  int failures_ = 0;
};

}  // namespace probing::torch
