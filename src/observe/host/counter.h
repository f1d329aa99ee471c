// Counter: what a number that only grows has grown by since the last look.
#pragma once

#include "observe/host/proc_text.h"

namespace probing::observe {

class Counter {
 public:
  // nullopt at the first look, when there is no number, and when it fell (somebody reset it).
  Number Step(Number now) {
    Number step;
    if (now.has_value() && last_.has_value() && *now >= *last_) step = *now - *last_;
    last_ = now;
    return step;
  }

 private:
  Number last_;  // never negative, so that a difference always fits
};

// `step_ns` of `interval_ns` in percent.
inline std::optional<double> Percent(Number step_ns, std::int64_t interval_ns) {
  if (!step_ns.has_value() || interval_ns <= 0) return std::nullopt;
  return 100.0 * static_cast<double>(*step_ns) / static_cast<double>(interval_ns);
}

inline std::optional<double> PerSecond(Number step, std::int64_t interval_ns) {
  if (!step.has_value() || interval_ns <= 0) return std::nullopt;
  return 1e9 * static_cast<double>(*step) / static_cast<double>(interval_ns);
}

}  // namespace probing::observe
