// RowBudget: how many stalls of one process become rows; something that happens all the time fills no table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace probing::observe {

// Not thread-safe.
class RowBudget {
 public:
  // Whether there may be another row now (monotonic). One that may not be is counted.
  bool Take(std::int64_t now_ns) {
    left_ = std::min(kMostAtOnce, left_ + static_cast<double>(now_ns - last_ns_) / 1e9 * kPerSecond);
    last_ns_ = now_ns;
    if (left_ < 1) {
      ++left_out_;
      return false;
    }
    left_ -= 1;
    return true;
  }
  // Those that were left out since the last call.
  std::uint64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  static constexpr double kPerSecond = 5;
  static constexpr double kMostAtOnce = 100;
  double left_ = kMostAtOnce;
  std::int64_t last_ns_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace probing::observe
