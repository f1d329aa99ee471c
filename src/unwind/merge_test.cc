#include "unwind/merge.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace probing::unwind {
namespace {

// Frames of 0x100 bytes of stack each, innermost first.
NativeStack Native(std::initializer_list<const char*> functions) {
  NativeStack stack;
  for (const char* name : functions) {
    auto function = std::make_shared<Function>();
    function->name = name;
    stack.frames.push_back({0x400000, 0x1000 + 0x100 * stack.frames.size(), function});
  }
  return stack;
}

cpython::Thread Python(std::initializer_list<cpython::EvalLoop> loops) {
  cpython::Thread thread;
  thread.loops = loops;
  for (const cpython::EvalLoop& loop : loops) {
    for (std::size_t i = 0; i < loop.frames; ++i) {
      thread.frames.push_back({"py" + std::to_string(thread.frames.size()), "file.py", 1, 1});
    }
  }
  return thread;
}

std::string Text(const NativeStack& native, const cpython::Thread& python) {
  const MixedStack stack = Merge(native, python);
  std::string text = stack.merged ? "" : "not merged:";
  for (const MixedFrame& frame : stack.frames) {
    const bool is_python = frame.kind == MixedFrame::Kind::kPython;
    text +=
        " " + (is_python ? python.frames[frame.index].function : native.frames[frame.index].function->name);
  }
  return text;
}

constexpr const char* kEval = "_PyEval_EvalFrameDefault";

TEST(Merge, PythonFramesStandWhereTheLoopIs) {
  EXPECT_EQ(Text(Native({"read", kEval, "list_sort", kEval, "main"}), Python({{1}, {2}})),
            " read py0 list_sort py1 py2 main");
}

TEST(Merge, SplitOffPartsOfTheLoopCountToo) {
  EXPECT_EQ(Text(Native({"read", "_PyEval_EvalFrameDefault.cold", "main"}), Python({{1}})), " read py0 main");
}

TEST(Merge, PlumbingIsLeftOutUnlessAskedFor) {
  const NativeStack native = Native({"time_sleep", "cfunction_vectorcall_O", kEval, "Py_RunMain", "main"});
  const cpython::Thread python = Python({{1}});
  EXPECT_EQ(Text(native, python), " time_sleep py0 main");
  EXPECT_EQ(Merge(native, python, PlumbingFrames::kKept).frames.size(), 5U);
}

TEST(Merge, ALoopThatJustBeginsHasNoFrameYet) {
  EXPECT_EQ(Text(Native({kEval, "sort", kEval, "main"}), Python({{1}})), " sort py0 main");
}

TEST(Merge, CountsThatDoNotFitAreSaidToNotFit) {
  EXPECT_EQ(Text(Native({"read", kEval, "main"}), Python({{1}, {1}})), "not merged: py0 py1 read main");
  EXPECT_EQ(Text(Native({"a", "b", "c", "d", "e", kEval, "f", kEval, "main"}), Python({{1}})),
            "not merged: py0 a b c d e f main");
}

TEST(Merge, ATornPythonStackIsNotMerged) {
  cpython::Thread python;
  python.torn = true;
  EXPECT_EQ(Text(Native({"read", kEval, "main"}), python), "not merged: read main");
}

TEST(Merge, AThreadWithoutPythonIsNativeOnly) {
  EXPECT_EQ(Text(Native({"read", "worker", "clone"}), {}), " read worker clone");
}

TEST(Merge, AddressesOnTheStackNeedNoNames) {
  // Since 3.12; the functions have no names in a stripped interpreter.
  const NativeStack native = Native({"read", "", "list_sort", "", "main"});
  EXPECT_EQ(Text(native, Python({{1, 0x1180}, {2, 0x1380}})), " read py0 list_sort py1 py2 main");
  EXPECT_EQ(Text(native, Python({{1, 0x1180}, {2, 0x1380}, {0, 0x9999'0000}})),
            " read py0 list_sort py1 py2 main")
      << "3.14 ends its chain with a frame of its own";
  EXPECT_EQ(Text(native, Python({{1, 0x1180}, {1, 0x80}})), "not merged: py0 py1 read  list_sort  main");
}

}  // namespace
}  // namespace probing::unwind
