#include <gtest/gtest.h>

#include "backtrace/backtrace.h"

namespace probing::backtrace {
namespace {

ShownThread SomeThread(pid_t tid, bool has_frames) {
  ShownThread thread;
  thread.kernel.tid = tid;
  if (has_frames) thread.python.frames.emplace_back();
  return thread;
}

TEST(Selection, ThreadsWithoutPythonAreShownOnlyWhenAskedFor) {
  EXPECT_TRUE(IsShown(SomeThread(7, true), {}));
  EXPECT_FALSE(IsShown(SomeThread(7, false), {}));
  EXPECT_TRUE(IsShown(SomeThread(7, false), {.all = true}));
}

TEST(Selection, OneThreadIsShownWhateverItRuns) {
  EXPECT_TRUE(IsShown(SomeThread(7, false), {.tid = 7}));
  EXPECT_FALSE(IsShown(SomeThread(8, true), {.tid = 7}));
  EXPECT_FALSE(IsShown(SomeThread(8, true), {.tid = 7, .all = true}));
}

TEST(Selection, AThreadThatHasTheGilIsShownWithoutFrames) {
  ShownThread thread = SomeThread(7, false);
  thread.python.has_gil = true;
  EXPECT_TRUE(IsShown(thread, {}));
}

TEST(Selection, ADepthIsASmallNumber) {
  EXPECT_EQ(*DepthOf("0"), 0);
  EXPECT_EQ(*DepthOf(std::to_string(cpython::kMaxValueDepth)), cpython::kMaxValueDepth);
  const std::string too_deep = std::to_string(cpython::kMaxValueDepth + 1);
  for (const std::string& text : {std::string(), std::string("-1"), std::string("1x"), too_deep}) {
    const auto depth = DepthOf(text);
    ASSERT_FALSE(depth.ok()) << text;
    EXPECT_EQ(depth.error().code, Code::kUsage) << text;
  }
}

}  // namespace
}  // namespace probing::backtrace
