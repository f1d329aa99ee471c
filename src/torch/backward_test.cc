#include "torch/backward.h"

#include <gtest/gtest.h>

namespace probing::torch {
namespace {

using Kind = BackwardMoment::Kind;

std::int64_t Duration(const std::vector<std::optional<BackwardSpan>>& spans, std::size_t call) {
  return spans[call].has_value() ? spans[call]->duration_ns : -1;
}

TEST(TorchBackward, ASequenceEndsWhereTheOneBeforeBegins) {
  // 0 contains 1, 2 and 3; its output is that of 3.
  const CallRange calls[] = {{3, 3}, {1}, {2}, {3}};
  const auto spans = BackwardSpans(
      calls,
      {{Kind::kBegin, 3, 100}, {Kind::kBegin, 2, 130}, {Kind::kBegin, 1, 180}, {Kind::kPassEnd, -1, 200}});
  EXPECT_EQ(Duration(spans, 3), 30);
  EXPECT_EQ(Duration(spans, 2), 50);
  EXPECT_EQ(Duration(spans, 1), 20);
  EXPECT_EQ(Duration(spans, 0), 100);
  EXPECT_EQ(spans[0]->begin_ns, 100);
}

TEST(TorchBackward, WhatIsBetweenModulesBelongsToNone) {
  // relu(first(x)) goes into the second one: its input is no module's output.
  const CallRange calls[] = {{0}, {1}};
  const auto spans = BackwardSpans(
      calls, {{Kind::kBegin, 1, 10}, {Kind::kEnd, 1, 15}, {Kind::kBegin, 0, 40}, {Kind::kPassEnd, -1, 41}});
  EXPECT_EQ(Duration(spans, 1), 5);
  EXPECT_EQ(Duration(spans, 0), 1);
}

TEST(TorchBackward, ModulesSideBySideAreNotCountedTwice) {
  const CallRange calls[] = {{1}, {1}, {3}, {3}};  // two experts with a layer each
  const auto spans =
      BackwardSpans(calls, {{Kind::kBegin, 3, 10}, {Kind::kBegin, 1, 30}, {Kind::kPassEnd, -1, 70}});
  EXPECT_EQ(Duration(spans, 2), 20);  // by its inner call: it returned something else than a tensor
  EXPECT_EQ(Duration(spans, 0), 40);
}

TEST(TorchBackward, NothingIsMadeUpForCallsThatWereSkipped) {
  // 0 contains 1, 2 and 3, of which only 2 was looked at: when 0 begins is not known.
  const CallRange calls[] = {{3}, {1, -1, true}, {2}, {3, -1, true}};
  const auto spans =
      BackwardSpans(calls, {{Kind::kBegin, 2, 130}, {Kind::kEnd, 2, 180}, {Kind::kPassEnd, -1, 200}});
  EXPECT_EQ(Duration(spans, 2), 50);
  for (const std::size_t call : {0, 1, 3}) EXPECT_EQ(Duration(spans, call), -1);
}

TEST(TorchBackward, TwoPassesAreNotOne) {
  const CallRange calls[] = {{0}, {1}};
  const auto spans = BackwardSpans(
      calls,
      {{Kind::kBegin, 0, 10}, {Kind::kPassEnd, -1, 20}, {Kind::kBegin, 1, 500}, {Kind::kPassEnd, -1, 530}});
  EXPECT_EQ(Duration(spans, 0), 10);
  EXPECT_EQ(Duration(spans, 1), 30);
}

TEST(TorchBackward, WhereAutogradNeverCameThereIsNothing) {
  const CallRange calls[] = {{0}, {1}};
  const auto spans = BackwardSpans(calls, {{Kind::kBegin, 1, 10}, {Kind::kBegin, 7, 11}});
  EXPECT_EQ(Duration(spans, 0), -1);
  EXPECT_EQ(Duration(spans, 1), 0);  // nothing came after it
  EXPECT_TRUE(BackwardSpans({}, {}).empty());
}

}  // namespace
}  // namespace probing::torch
