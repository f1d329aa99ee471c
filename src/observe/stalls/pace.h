// Pace: when to look next, so that all looks together take a bounded share of one CPU.
//
// Looks earn their time back: what they may take grows with the time that passes, up to a reserve, which is
// spent when something is to be seen closely, and then only. Then the next look waits. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace probing::observe {

class Pace {
 public:
  struct Options {
    double share = 0.01;                      // of one CPU
    std::int64_t reserve_ns = 100'000'000;    // of CPU time
    std::int64_t usual_ns = 20'000'000;       // between looks
    std::int64_t close_ns = 8'000'000;        // while something is to be seen closely
    std::int64_t longest_ns = 1'000'000'000;  // however dear a look is
  };
  explicit Pace(const Options& options) : options_(options), left_ns_(options.reserve_ns) {}

  // Between `last_ns` and `now_ns`, on the monotonic clock, the looks took `spent_ns` of CPU time. Returns
  // when the next one is due.
  std::int64_t Next(std::int64_t last_ns, std::int64_t now_ns, std::int64_t spent_ns, bool closely) {
    left_ns_ += static_cast<std::int64_t>(static_cast<double>(now_ns - last_ns) * options_.share) - spent_ns;
    left_ns_ = std::min(left_ns_, options_.reserve_ns);
    const std::int64_t wait_ns = closely ? options_.close_ns : options_.usual_ns;
    const std::int64_t owed_ns = std::max(-left_ns_, closely ? 0 : spent_ns);
    const auto earned_in_ns = static_cast<std::int64_t>(static_cast<double>(owed_ns) / options_.share);
    return now_ns + std::clamp(earned_in_ns, wait_ns, options_.longest_ns);
  }

 private:
  Options options_;
  std::int64_t left_ns_;
};

}  // namespace probing::observe
