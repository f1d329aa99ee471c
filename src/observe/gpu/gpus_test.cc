#include "observe/gpu/gpus.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "base/clock.h"
#include "observe/gpu/gpu_sampler.h"

namespace probing::observe {
namespace {

// The stand-in stays loaded during a test, so that it keeps what the test sets.
class StandIn : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(PROBING_NVML_STAND_IN, RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    EXPECT_EQ(Get<std::atomic<int>>("stand_in_open"), 0) << "nvmlInit and nvmlShutdown come in pairs";
    dlclose(library_);
  }
  template <typename T>
  T& Get(const char* name) {
    return *static_cast<T*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
};

TEST_F(StandIn, ValuesHaveOurUnits) {
  Get<unsigned>("stand_in_pid") = 4711;
  const auto gpus = Gpus::Load(PROBING_NVML_STAND_IN);
  ASSERT_TRUE(gpus->available());
  const auto looks = gpus->Look();
  ASSERT_EQ(looks.size(), 2U) << "the second cannot be opened";
  const GpuLook& look = looks[0];
  EXPECT_EQ(look.device, 0);
  EXPECT_EQ(look.name, "Stand-in H100");
  EXPECT_EQ(look.uuid, "GPU-0000");
  EXPECT_EQ(look.util_percent, 97);
  EXPECT_EQ(look.memory_util_percent, 41);
  EXPECT_EQ(look.memory_used, std::int64_t{10} << 30);
  EXPECT_EQ(look.memory_total, std::int64_t{80} << 30);
  EXPECT_EQ(look.temperature, 61);
  EXPECT_EQ(look.power, 325.5);
  EXPECT_EQ(look.sm_clock, 1980);
  ASSERT_EQ(look.processes.size(), 2U);
  EXPECT_EQ(look.processes[0].pid, 4711);
  EXPECT_EQ(look.processes[0].memory_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(look.processes[1].memory_bytes, std::nullopt) << "not available is not 2^64 bytes";
}

TEST_F(StandIn, WhatADeviceDoesNotSupportIsLeftOut) {
  const auto looks = Gpus::Load(PROBING_NVML_STAND_IN)->Look();
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_EQ(looks[1].device, 2);
  EXPECT_EQ(looks[1].memory_total, std::int64_t{80} << 30);
  EXPECT_EQ(looks[1].util_percent, std::nullopt);
  EXPECT_EQ(looks[1].power, std::nullopt);
  EXPECT_TRUE(looks[1].processes.empty());
}

TEST_F(StandIn, ALostGpuHasNoRowAndTheOthersGoOn) {
  const auto gpus = Gpus::Load(PROBING_NVML_STAND_IN);
  Get<int>("stand_in_lost_device") = 0;
  const auto looks = gpus->Look();
  ASSERT_EQ(looks.size(), 1U);
  EXPECT_EQ(looks[0].device, 2);
}

TEST_F(StandIn, ManyProcessesFit) {
  Get<unsigned>("stand_in_processes") = 500;
  EXPECT_EQ(Gpus::Load(PROBING_NVML_STAND_IN)->Look().at(0).processes.size(), 500U);
}

TEST_F(StandIn, WithoutADriverThereAreNoGpus) {
  Get<int>("stand_in_has_driver") = 0;
  const auto gpus = Gpus::Load(PROBING_NVML_STAND_IN);
  EXPECT_FALSE(gpus->available());
  EXPECT_TRUE(gpus->Look().empty());
}

TEST_F(StandIn, TheEnvironmentNamesTheLibrary) {
  setenv("PROBING_NVML", PROBING_NVML_STAND_IN, 1);
  EXPECT_TRUE(Gpus::Load()->available());
  unsetenv("PROBING_NVML");
}

TEST_F(StandIn, TheSamplerHasALookForTheNextTick) {
  {
    GpuSampler sampler(PROBING_NVML_STAND_IN);
    EXPECT_TRUE(sampler.TakeLast().looks.empty());
    const Deadline deadline = Deadline::AfterMs(10'000);
    GpuSampler::Sample sample;
    while (sample.looks.empty() && !deadline.passed()) {
      SleepUs(1000);
      sample = sampler.TakeLast();
    }
    EXPECT_EQ(sample.looks.size(), 2U);
    EXPECT_NEAR(static_cast<double>(sample.time_ns), static_cast<double>(WallNs()), 10e9);
  }
  const Deadline deadline = Deadline::AfterMs(10'000);
  while (Get<std::atomic<int>>("stand_in_open") != 0 && !deadline.passed()) SleepUs(1000);
}

TEST(Gpus, AMissingLibraryIsNoError) {
  const auto gpus = Gpus::Load("/nonexistent/libnvidia-ml.so.1");
  EXPECT_FALSE(gpus->available());
  EXPECT_TRUE(gpus->Look().empty());
}

TEST(Gpus, ALibraryThatIsSomethingElseIsNoError) { EXPECT_FALSE(Gpus::Load("libm.so.6")->available()); }

}  // namespace
}  // namespace probing::observe
