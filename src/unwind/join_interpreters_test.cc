#include "unwind/join_interpreters.h"

#include <gtest/gtest.h>

namespace probing::unwind {
namespace {

cpython::Thread StackOf(std::int64_t interpreter, std::vector<std::string> functions,
                        std::vector<cpython::EvalLoop> loops) {
  cpython::Thread thread;
  thread.tid = 7;
  thread.interpreter_id = interpreter;
  for (std::string& function : functions)
    thread.frames.push_back({.function = std::move(function), .file = ""});
  thread.loops = std::move(loops);
  return thread;
}

std::vector<std::string> Names(const cpython::Thread& thread) {
  std::vector<std::string> names;
  for (const cpython::Frame& frame : thread.frames) {
    names.push_back(frame.function + "@" + std::to_string(frame.interpreter_id.value_or(-1)));
  }
  return names;
}

TEST(JoinInterpreters, TheOrderIsThatOfTheCStack) {
  // The main interpreter calls 2, which calls 1, which calls a thread state of 2 again.
  const auto joined = JoinInterpreters({StackOf(0, {"main"}, {{1, 900}}), StackOf(1, {"middle"}, {{1, 500}}),
                                        StackOf(2, {"inner", "outer", "outer"}, {{1, 100}, {2, 700}})});
  EXPECT_EQ(Names(joined), (std::vector<std::string>{"inner@2", "middle@1", "outer@2", "outer@2", "main@0"}));
  EXPECT_FALSE(joined.torn);
  EXPECT_EQ(joined.loops.size(), 4U);
  EXPECT_EQ(joined.interpreter_id, 2);
}

TEST(JoinInterpreters, WithoutAddressesTheMainOneIsOutermost) {
  const auto joined = JoinInterpreters({StackOf(0, {"main"}, {{1, 0}}), StackOf(3, {"sub"}, {{1, 0}})});
  EXPECT_EQ(Names(joined), (std::vector<std::string>{"sub@3", "main@0"}));
  EXPECT_FALSE(joined.torn);
}

TEST(JoinInterpreters, AnOrderThatNobodyKnowsIsNotGuessed) {
  const auto joined = JoinInterpreters(
      {StackOf(0, {"main"}, {{1, 0}}), StackOf(1, {"one"}, {{1, 0}}), StackOf(2, {"two"}, {{1, 0}})});
  EXPECT_TRUE(joined.torn);
  EXPECT_EQ(joined.frames.size(), 3U);
}

TEST(JoinInterpreters, MoreFramesInLoopsThanThereAreIsHarmless) {
  const auto joined = JoinInterpreters({StackOf(0, {"main"}, {{9, 40}, {9, 50}}), StackOf(1, {}, {{3, 10}})});
  EXPECT_EQ(joined.frames.size(), 1U);
}

}  // namespace
}  // namespace probing::unwind
