#include "backtrace/own_frames.h"

#include <gtest/gtest.h>

#include "base/own_code.h"

namespace probing::backtrace {
namespace {

cpython::Frame Of(const char* function, const char* file) {
  cpython::Frame frame;
  frame.function = function;
  frame.file = file;
  return frame;
}

std::vector<std::string> Names(const ShownThread& thread) {
  std::vector<std::string> names;
  for (const cpython::Frame& frame : thread.python.frames) names.push_back(frame.function);
  return names;
}

TEST(OwnFrames, AreLeftOutOfTheJobsStacks) {
  std::vector<ShownThread> threads(2);
  threads[0].python.frames = {Of("hook", "/job/a.py"), Of("call", kOwnPythonFile), Of("step", "/job/a.py"),
                              Of("main", "/job/a.py")};
  threads[0].python.left_out = 7;
  threads[0].python.left_out_at = 3;
  threads[1].python.frames = {Of("loop", kOwnPythonFile)};
  LeaveOutOwnFrames(threads);
  EXPECT_EQ(Names(threads[0]), (std::vector<std::string>{"hook", "step", "main"}));
  EXPECT_EQ(threads[0].python.left_out_at, 2U);
  EXPECT_EQ(Names(threads[1]), (std::vector<std::string>{"loop"}));
}

}  // namespace
}  // namespace probing::backtrace
