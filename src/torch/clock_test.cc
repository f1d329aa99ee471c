#include "torch/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace probing::torch {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// The counter runs at 2 GHz here.
StepClock::Moment At(std::int64_t ns, std::int64_t wrong_ticks = 0) { return {ns, 2 * ns + wrong_ticks}; }

TEST(StepClock, IsTheClockOnceTheCounterIsKnown) {
  StepClock clock;
  EXPECT_FALSE(clock.counts());
  const std::int64_t begin_ns = MonotonicNs();
  clock.Anchor();
  while (MonotonicNs() < begin_ns + 20 * kMs) {
  }
  clock.Anchor();
  clock.Anchor();
  ASSERT_TRUE(clock.counts());
  std::int64_t nearest_ns = kMs;
  for (int i = 0; i < 1000; ++i) nearest_ns = std::min(nearest_ns, std::abs(clock.NowNs() - MonotonicNs()));
  EXPECT_LT(nearest_ns, 10'000);
}

TEST(StepClock, IsNotReliedOnWhereBothDisagree) {
  StepClock clock;
  for (std::int64_t step = 1; step < 100; ++step) clock.Anchor(At(step * 20 * kMs));
  EXPECT_TRUE(clock.counts());
  clock.Anchor(At(100 * 20 * kMs, 500 * kMs));  // on another processor that counts from elsewhere
  EXPECT_FALSE(clock.counts());
  clock.Anchor(At(101 * 20 * kMs, 500 * kMs));
  EXPECT_TRUE(clock.counts()) << "both go on together";
  clock.Anchor(At(102 * 20 * kMs, -500 * kMs));
  EXPECT_FALSE(clock.counts()) << "it went backwards";
  for (std::int64_t step = 103; step < 500; ++step) clock.Anchor(At(step * 20 * kMs, step % 2 * 500 * kMs));
  EXPECT_FALSE(clock.counts()) << "there is no end to it";
}

}  // namespace
}  // namespace probing::torch
