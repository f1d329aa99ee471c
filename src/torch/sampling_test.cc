#include "torch/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace probing::torch {
namespace {

TEST(TorchSampling, OneStepOfEachPeriodAndNotAlwaysTheSame) {
  std::set<std::int64_t> places;
  for (std::int64_t period = 0; period < 100; ++period) {
    int sampled = 0;
    for (std::int64_t place = 0; place < 20; ++place) {
      if (!IsSampledStep(period * 20 + place, 0.05)) continue;
      ++sampled;
      places.insert(place);
    }
    EXPECT_EQ(sampled, 1) << period;
  }
  EXPECT_GT(places.size(), 10U);
}

TEST(TorchSampling, FewerAreSomeOfThoseThatOthersTake) {
  int all = 0, some = 0;
  for (std::int64_t step = 0; step < 200'000; ++step) {
    all += IsSampledStep(step, 0.05) ? 1 : 0;
    if (!IsSampledStep(step, 0.05, 8)) continue;
    ++some;
    EXPECT_TRUE(IsSampledStep(step, 0.05, 4) && IsSampledStep(step, 0.05)) << step;
  }
  EXPECT_NEAR(some, all / 8, all / 40);
}

TEST(TorchSampling, AllOrNone) {
  for (std::int64_t step = 0; step < 50; ++step) {
    EXPECT_TRUE(IsSampledStep(step, 1));
    EXPECT_FALSE(IsSampledStep(step, 0));
  }
}

TEST(RateKeeper, LowersTheRateWhenMoreThanTheShareWasTaken) {
  RateKeeper keeper(1, 0.03);
  bool lowered = false;
  for (int i = 0; i < 20; ++i) lowered = keeper.StepTook(100'000'000, 30'000'000) || lowered;
  EXPECT_TRUE(lowered);
  EXPECT_NEAR(keeper.share(), 0.3, 1e-9);
  EXPECT_NEAR(keeper.rate(), 0.08, 1e-9);
}

TEST(RateKeeper, StaysWhenItIsWithinTheBound) {
  RateKeeper keeper(1, 0.03);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(keeper.StepTook(100'000'000, 2'000'000));
  EXPECT_EQ(keeper.rate(), 1);
}

TEST(RateKeeper, SomeTracedStepsInASecondAreEnoughUnlessARateWasAskedFor) {
  RateKeeper ours(0.05, 0.03, true), asked_for(0.05, 0.03);
  const auto second_of = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      ours.StepTook(1'000'000'000 / steps, 0);
      asked_for.StepTook(1'000'000'000 / steps, 0);
    }
    EXPECT_EQ(asked_for.thin(), 1U);
    return ours.thin();
  };
  EXPECT_EQ(second_of(50), 1U);   // 20 ms each: one in 0.4 s is traced
  EXPECT_EQ(second_of(500), 4U);  // 2 ms
  EXPECT_EQ(second_of(400), 4U);  // a little less changes nothing
  EXPECT_EQ(second_of(50), 1U);
  EXPECT_EQ(second_of(100'000), 64U);
}

TEST(TorchSampling, ShortCallsTakeTurnsWhenThereAreMany) {
  BackwardTurns turns;
  const auto taken = [&](int calls) {
    std::vector<int> found;
    for (int i = 0; i < calls; ++i) {
      if (turns.Takes(i == 50 ? BackwardTurns::kShortNs : 1'000, i)) found.push_back(i);
    }
    turns.StepTook(15'000'000);
    return found;
  };
  EXPECT_EQ(taken(4).size(), 4U);      // few: all of them, always
  EXPECT_EQ(taken(100).size(), 100U);  // how many there are is not known before the first step
  std::vector<int> seen(100);
  std::vector<int> seen_by_one(100);        // of steps that come once in as many
  for (int step = 0; step < 340; ++step) {  // 17 turns, twenty times
    const std::vector<int> some = taken(100);
    EXPECT_LE(some.size(), 9U);
    for (const int call : some) ++(step % 17 == 0 ? seen_by_one : seen)[static_cast<std::size_t>(call)];
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_NEAR(seen[i] + seen_by_one[i], i == 50 ? 340 : 20, i == 50 ? 0 : 1) << i;
  }
  const auto never = std::count(seen_by_one.begin(), seen_by_one.end(), 0);
  EXPECT_LT(never, 60) << "it would meet one turn only, were they always in the same order";
}

}  // namespace
}  // namespace probing::torch
