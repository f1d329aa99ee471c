#include "torch/guarded_call.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace probing::torch {
namespace {

struct Probe {
  void (*throw_it)(const char*) = nullptr;
  int begun = 0;
  int returned = 0;
};

void Returns(void* argument) { ++static_cast<Probe*>(argument)->returned; }

void Throws(void* argument) {
  auto* probe = static_cast<Probe*>(argument);
  ++probe->begun;
  probe->throw_it("of a runtime that is not ours");
  ++probe->returned;
}

// libstdc++ beside the runtime that this program is built with, as in a target.
TEST(GuardedCall, ComesBackFromAFunctionOfAnotherRuntimeThatThrows) {
  void* library = dlopen("libstdc++.so.6", RTLD_NOW);
  if (library == nullptr) GTEST_SKIP() << "needs libstdc++.so.6";
  Probe probe;
  probe.throw_it = reinterpret_cast<void (*)(const char*)>(dlsym(library, "_ZSt20__throw_length_errorPKc"));
  ASSERT_NE(probe.throw_it, nullptr);
  ASSERT_TRUE(PrepareGuardedCall(library));
  // Many times: registers and stack are as they were.
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(GuardedCall(&Returns, &probe));
    EXPECT_FALSE(GuardedCall(&Throws, &probe));
  }
  EXPECT_EQ(probe.begun, 1000);
  EXPECT_EQ(probe.returned, 1000);
}

}  // namespace
}  // namespace probing::torch
