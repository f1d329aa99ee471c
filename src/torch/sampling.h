// Which steps are traced in full.
#pragma once

#include <algorithm>
#include <cstdint>

namespace probing::torch {

inline std::uint64_t Mixed(std::uint64_t number) {  // splitmix64
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

// One step in each 1/rate, not always the same one of them, so that it does not fall together with
// what the job does every so many steps. A function of the number alone: all ranks take the same.
// Of these, one in `thin`, a power of two: who takes fewer takes some of those that others take.
inline bool IsSampledStep(std::int64_t step, double rate, std::uint64_t thin = 1) {
  if (rate >= 1) return true;
  if (rate <= 0) return false;
  const auto period = static_cast<std::uint64_t>(1 / rate + 0.5);
  const auto number = static_cast<std::uint64_t>(step);
  const std::uint64_t mixed = Mixed(number / period);
  return number % period == mixed % period && (mixed >> 32) % thin == 0;
}

// Whose backward is looked at. Having autograd tell costs some microseconds, much more than a call of a
// module does otherwise; where many short calls would make a step longer by that, they take turns: some of
// them in one traced step, others in the next.
class BackwardTurns {
 public:
  // Of one that takes longer, with its backward, being told is less than a quarter of a percent.
  static constexpr std::int64_t kShortNs = 2'000'000;

  // Whether this call's is looked at in this step. Neighbours are together, which saves moments.
  bool Takes(std::int64_t duration_ns, std::int32_t index) {
    if (duration_ns >= kShortNs) return true;
    ++short_calls_;
    const bool taken = static_cast<std::uint64_t>(index) / kNeighbours % turns_ == turn_;
    taken_ += taken ? 1 : 0;
    return taken;
  }

  // Autograd was asked to tell of a tensor: two for a call, or one that is its neighbour's as well.
  void Watched() { ++watched_; }

  // A traced step is over.
  void StepTook(std::int64_t duration_ns) {
    constexpr std::int64_t kPriceNs = 6'000;  // measured: hanging it in, being called; caches are cold
    constexpr std::int64_t kShare = 400;      // of the step
    constexpr std::uint64_t kLeast = 2;
    const bool costs_twice = 2 * watched_ > 3 * taken_;
    const auto affordable =
        static_cast<std::uint64_t>(duration_ns / kShare / kPriceNs / (costs_twice ? 2 : 1));
    const std::uint64_t most = affordable > kLeast ? affordable : kLeast;
    constexpr std::uint64_t kFew = 8;  // calls that are no burden to anybody
    turns_ = short_calls_ > std::max(most, kFew) ? (short_calls_ + most - 1) / most : 1;
    short_calls_ = taken_ = watched_ = 0;
    // Each round begins with another turn: steps that differ (of two models, say) must not always meet the
    // same.
    ++steps_;
    turn_ = (steps_ + Mixed(steps_ / turns_) % turns_) % turns_;
  }

 private:
  static constexpr std::uint64_t kNeighbours = 4;
  std::uint64_t turns_ = 1;
  std::uint64_t turn_ = 0;
  std::uint64_t steps_ = 0;  // that were traced
  std::uint64_t short_calls_ = 0;
  std::uint64_t taken_ = 0;    // of these
  std::uint64_t watched_ = 0;  // tensors
};

// How much of the time the tracing took, and what to do when that is more than it may. `may_thin`: nobody
// has asked for this rate, and some ten traced steps in a second are enough.
class RateKeeper {
 public:
  RateKeeper() = default;
  RateKeeper(double rate, double most_share, bool may_thin = false)
      : rate_(rate), most_share_(most_share), may_thin_(may_thin) {}

  double rate() const { return rate_; }
  std::uint64_t thin() const { return thin_; }
  double share() const { return share_; }  // of the last window

  // Tells whether the rate is lower now than before.
  bool StepTook(std::int64_t duration_ns, std::int64_t overhead_ns) {
    constexpr std::int64_t kWindowNs = 1'000'000'000;
    constexpr int kWindowSteps = 20;
    constexpr double kLowest = 1e-4;
    duration_ns_ += duration_ns;
    overhead_ns_ += overhead_ns;
    if (++steps_ < kWindowSteps || duration_ns_ < kWindowNs) return false;
    share_ = static_cast<double>(overhead_ns_) / static_cast<double>(duration_ns_);
    if (may_thin_ && rate_ > 0) Thin(static_cast<double>(duration_ns_) / steps_ / rate_);
    duration_ns_ = overhead_ns_ = 0;
    steps_ = 0;
    if (share_ <= most_share_ || rate_ <= kLowest) return false;
    const double lower = rate_ * most_share_ / share_ * 0.8;
    rate_ = lower > kLowest ? lower : kLowest;
    return true;
  }

 private:
  // With some room between more and less, or a job would go back and forth.
  void Thin(double between_ns) {
    constexpr double kLeastBetweenNs = 100e6;
    constexpr std::uint64_t kMost = 64;
    while (thin_ < kMost && between_ns * static_cast<double>(thin_) < kLeastBetweenNs) thin_ *= 2;
    while (thin_ > 1 && between_ns * static_cast<double>(thin_) > 3 * kLeastBetweenNs) thin_ /= 2;
  }

  double rate_ = 0;
  double most_share_ = 1;
  bool may_thin_ = false;
  std::uint64_t thin_ = 1;
  double share_ = 0;
  std::int64_t duration_ns_ = 0;
  std::int64_t overhead_ns_ = 0;
  int steps_ = 0;
};

}  // namespace probing::torch
