#include "unwind/jit_code.h"

#include <gtest/gtest.h>

namespace probing::unwind {
namespace {

TEST(JitCode, PerfMapsNameFunctionsAndTheLastLineCounts) {
  JitCode code;
  code.ParsePerfMap(
      "1000 40 py::old:/job.py\nnonsense\n2000 0 empty\n1000 20 py::train step:/job.py\nzz 1 x\n");
  ASSERT_TRUE(code.FindSymbol(0x101f));
  EXPECT_EQ(code.FindSymbol(0x101f)->name, "py::train step:/job.py");
  EXPECT_EQ(code.FindSymbol(0x101f)->start, 0x1000U);
  EXPECT_FALSE(code.FindSymbol(0x1020));
  EXPECT_FALSE(code.FindSymbol(0xfff));
  EXPECT_FALSE(code.FindSymbol(0x2000));
  EXPECT_TRUE(IsPythonTrampoline("py::train:/job.py"));
  EXPECT_FALSE(IsPythonTrampoline("pytrain"));
}

}  // namespace
}  // namespace probing::unwind
