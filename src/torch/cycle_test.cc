#include "torch/cycle.h"

#include <gtest/gtest.h>

#include <string>

namespace probing::torch {
namespace {

// Each letter is an optimizer that is called, "." a backward pass, "," a batch that is fetched. Tells how
// many steps have ended.
int Steps(UpdateCycle& cycle, const std::string& calls) {
  static const char optimizers[256] = {};
  int steps = 0;
  for (const char call : calls) {
    if (call == '.') {
      cycle.Worked();
    } else if (call == ',') {
      cycle.Fetched();
    } else if (cycle.Updated(&optimizers[static_cast<unsigned char>(call)])) {
      ++steps;
    }
  }
  return steps;
}

std::string Times(int count, const std::string& calls) {
  std::string all;
  for (int i = 0; i < count; ++i) all += calls;
  return all;
}

TEST(UpdateCycle, CountsOneOptimizer) {
  UpdateCycle cycle;
  EXPECT_TRUE(cycle.empty());
  EXPECT_EQ(Steps(cycle, Times(100, ".A")), 100);
  EXPECT_FALSE(cycle.empty());
}

TEST(UpdateCycle, CountsWithoutBackwardPasses) {
  UpdateCycle cycle;
  Steps(cycle, Times(32, "A"));
  EXPECT_EQ(Steps(cycle, Times(100, "A")), 100);
}

TEST(UpdateCycle, BeginsInTheMiddleOfAnUpdate) {
  UpdateCycle cycle;
  EXPECT_EQ(Steps(cycle, "BCDEF" + Times(100, ".ABCDEF")), 100);
}

TEST(UpdateCycle, TakesSeveralCallsWithoutBackwardAsOneUpdate) {
  UpdateCycle groups, layers;
  EXPECT_EQ(Steps(groups, Times(100, ".AAA")), 100);
  EXPECT_EQ(Steps(layers, Times(100, ".ABCD")), 100);
}

TEST(UpdateCycle, CountsAGeneratorAndItsCriticOnce) {
  UpdateCycle cycle, from_the_middle;
  EXPECT_NEAR(Steps(cycle, Times(100, ",.C.G")), 100, 1);
  EXPECT_NEAR(Steps(from_the_middle, ".G" + Times(100, ",.C.G")), 100, 2);
}

TEST(UpdateCycle, EndsAStepWhereABatchIsFetched) {
  UpdateCycle cycle;
  Steps(cycle, ".G" + Times(3, ",.C.G"));
  EXPECT_EQ(Steps(cycle, ",.C"), 0);
  EXPECT_EQ(Steps(cycle, ".G"), 1);
}

TEST(UpdateCycle, CountsFiveUpdatesOfACriticAndOneOfAGeneratorOnce) {
  UpdateCycle cycle;
  EXPECT_NEAR(Steps(cycle, Times(100, ".C.C.C.C.C.G")), 100, 6);
  UpdateCycle from_the_middle;
  EXPECT_NEAR(Steps(from_the_middle, ".C.G" + Times(100, ".C.C.C.C.C.G")), 100, 6);
}

TEST(UpdateCycle, GoesOnWhenAnotherOptimizerTakesOver) {
  UpdateCycle cycle;
  Steps(cycle, Times(50, ".A"));
  EXPECT_NEAR(Steps(cycle, Times(50, ".B")), 50, 1);
  EXPECT_NEAR(Steps(cycle, Times(50, ".A")), 50, 1);
}

TEST(UpdateCycle, AnOptimizerThatJoinsNowAndThenDoesNotCount) {
  UpdateCycle cycle;
  EXPECT_NEAR(Steps(cycle, Times(100, ".A.A.A.A.A.A.A.A.A.A.A.A.A.A.A.A.A.A.A.AB")), 2000, 2);
}

}  // namespace
}  // namespace probing::torch
