#include "observe/gpu/gpus.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "base/clock.h"
#include "observe/gpu/background_sampler.h"
#include "observe/gpu/nvml.h"

namespace probing::observe {
namespace {

// Of NVIDIA's alone.
std::unique_ptr<Gpus> LoadNvml(const std::string& library) {
  return Gpus::Load({.nvml_library = library,
                     .amdsmi_library = "/nonexistent",
                     .dcmi_library = "/nonexistent",
                     .npu_smi = "/nonexistent",
                     .sys_root = "/nonexistent"});
}

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
  const auto gpus = LoadNvml(PROBING_NVML_STAND_IN);
  ASSERT_TRUE(gpus->available());
  const auto looks = gpus->Look(GpuDepth::kUsage);
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
  const auto looks = LoadNvml(PROBING_NVML_STAND_IN)->Look(GpuDepth::kUsage);
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_EQ(looks[1].device, 2);
  EXPECT_EQ(looks[1].memory_total, std::int64_t{80} << 30);
  EXPECT_EQ(looks[1].util_percent, std::nullopt);
  EXPECT_EQ(looks[1].power, std::nullopt);
  EXPECT_TRUE(looks[1].processes.empty());
}

TEST_F(StandIn, ALostGpuHasNoRowAndTheOthersGoOn) {
  const auto gpus = LoadNvml(PROBING_NVML_STAND_IN);
  Get<int>("stand_in_lost_device") = 0;
  const auto looks = gpus->Look(GpuDepth::kUsage);
  ASSERT_EQ(looks.size(), 1U);
  EXPECT_EQ(looks[0].device, 2);
}

TEST_F(StandIn, ManyProcessesFit) {
  Get<unsigned>("stand_in_processes") = 500;
  EXPECT_EQ(LoadNvml(PROBING_NVML_STAND_IN)->Look(GpuDepth::kUsage).at(0).processes.size(), 500U);
}

TEST_F(StandIn, WithoutADriverThereAreNoGpus) {
  Get<int>("stand_in_has_driver") = 0;
  const auto gpus = LoadNvml(PROBING_NVML_STAND_IN);
  EXPECT_FALSE(gpus->available());
  EXPECT_TRUE(gpus->Look(GpuDepth::kUsage).empty());
}

TEST_F(StandIn, TheEnvironmentNamesTheLibrary) {
  setenv("PROBING_NVML", PROBING_NVML_STAND_IN, 1);
  EXPECT_TRUE(Gpus::Load()->available());
  unsetenv("PROBING_NVML");
}

TEST_F(StandIn, HealthHasOurUnits) {
  Get<int>("stand_in_xid") = 79;
  Get<unsigned>("stand_in_pcie_width") = 8;
  const auto gpus = LoadNvml(PROBING_NVML_STAND_IN);
  const auto looks = gpus->Look(GpuDepth::kHealth);
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_EQ(looks[0].vendor, "nvidia");
  EXPECT_EQ(looks[0].pci, "00000000:65:00.0");
  EXPECT_EQ(looks[0].power_limit, 700);
  EXPECT_EQ(looks[0].memory_clock, 2619);
  const GpuHealth& health = looks[0].health.value();
  EXPECT_EQ(health.throttle_reasons, "sw_power_cap");
  EXPECT_EQ(health.is_throttled, false) << "a power limit is how GPUs are run";
  EXPECT_EQ(health.sm_clock_max, 1995);
  EXPECT_EQ(health.temperature_limit, 95);
  EXPECT_EQ(health.memory_temperature, 70);
  EXPECT_EQ(health.ecc_corrected, 3);
  EXPECT_EQ(health.ecc_uncorrected, 0);
  EXPECT_EQ(health.ecc_corrected_total, 11);
  EXPECT_EQ(health.ecc_uncorrected_total, 2);
  EXPECT_EQ(health.retired_pages, 5) << "of both causes";
  EXPECT_EQ(health.retire_pending, true);
  EXPECT_EQ(health.remapped_rows_corrected, 6);
  EXPECT_EQ(health.remapped_rows_uncorrected, 7);
  EXPECT_EQ(health.remap_pending, false);
  EXPECT_EQ(health.remap_failed, false);
  EXPECT_EQ(health.pcie_width, 8);
  EXPECT_EQ(health.pcie_width_max, 16);
  EXPECT_EQ(health.pcie_generation, 4);
  EXPECT_EQ(health.pcie_generation_max, 5);
  EXPECT_EQ(health.pcie_replays, 12);
  EXPECT_EQ(health.pcie_sent_bytes, 123456789);
  EXPECT_EQ(health.pcie_received_bytes, 987654321);
  EXPECT_EQ(health.links, 4);
  EXPECT_EQ(health.links_active, 3);
  EXPECT_EQ(health.link_errors, 7);
  EXPECT_EQ(health.link_sent_bytes, 1000 * 1024);
  EXPECT_EQ(health.link_received_bytes, 2000 * 1024);
  EXPECT_EQ(health.xid, 79);
  EXPECT_EQ(health.fault, "");
  // The other device says little, and the Xid is told once.
  const GpuHealth& other = looks[1].health.value();
  EXPECT_EQ(other.throttle_reasons, "");
  EXPECT_EQ(other.is_throttled, std::nullopt);
  EXPECT_EQ(other.links, std::nullopt);
  EXPECT_EQ(other.xid, std::nullopt);
  EXPECT_EQ(gpus->Look(GpuDepth::kHealth).at(0).health->xid, std::nullopt);
}

TEST_F(StandIn, UseByProcessIsTheMeanSinceTheLastLook) {
  Get<unsigned>("stand_in_pid") = 4711;
  const auto gpus = LoadNvml(PROBING_NVML_STAND_IN);
  EXPECT_EQ(gpus->Look(GpuDepth::kUsage).at(0).processes.at(0).util_percent, 50);
  EXPECT_EQ(gpus->Look(GpuDepth::kUsage).at(0).processes.at(0).util_percent, std::nullopt)
      << "no sample since then";
}

TEST_F(StandIn, ALostGpuIsToldAmongTheHealth) {
  const auto gpus = LoadNvml(PROBING_NVML_STAND_IN);
  Get<int>("stand_in_lost_device") = 0;
  const auto looks = gpus->Look(GpuDepth::kHealth);
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_TRUE(looks[0].is_lost);
  EXPECT_NE(looks[0].health->fault.find("lost"), std::string::npos);
}

TEST_F(StandIn, DoctorSaysVersionsAndWhatIsMissing) {
  const std::string text = OpenNvml({.nvml_library = PROBING_NVML_STAND_IN})->Describe();
  EXPECT_NE(text.find("driver 550.54.15, 2 GPUs"), std::string::npos) << text;
  EXPECT_EQ(text.find("does not have"), std::string::npos) << "all that we use are there: " << text;
  EXPECT_NE(OpenNvml({.nvml_library = "libm.so.6"})->Describe().find("no NVML that we know"),
            std::string::npos);
  Get<int>("stand_in_has_driver") = 0;
  const std::string none = OpenNvml({.nvml_library = PROBING_NVML_STAND_IN})->Describe();
  EXPECT_NE(none.find("the driver is not loaded"), std::string::npos) << none;
}

auto OpenStandIn() {
  return []() -> BackgroundSampler<std::vector<GpuLook>>::Take {
    std::shared_ptr<Gpus> gpus = LoadNvml(PROBING_NVML_STAND_IN);
    return [gpus] { return gpus->Look(GpuDepth::kUsage); };
  };
}

TEST_F(StandIn, TheSamplerHasALookForTheNextTick) {
  {
    BackgroundSampler<std::vector<GpuLook>> sampler(OpenStandIn());
    EXPECT_FALSE(sampler.TakeLast().look);
    const Deadline deadline = Deadline::AfterMs(10'000);
    BackgroundSampler<std::vector<GpuLook>>::Sample sample;
    while (!sample.look && !deadline.passed()) {
      SleepUs(1000);
      sample = sampler.TakeLast();
    }
    ASSERT_TRUE(sample.look);
    EXPECT_EQ(sample.look->size(), 2U);
    EXPECT_NEAR(static_cast<double>(sample.time_ns), static_cast<double>(WallNs()), 10e9);
  }
  const Deadline deadline = Deadline::AfterMs(10'000);
  while (Get<std::atomic<int>>("stand_in_open") != 0 && !deadline.passed()) SleepUs(1000);
}

TEST_F(StandIn, ASlowDriverIsAskedSeldom) {
  Get<unsigned>("stand_in_look_ms") = 25;  // for each of two devices
  {
    BackgroundSampler<std::vector<GpuLook>> sampler(OpenStandIn());
    const Deadline first = Deadline::AfterMs(10'000);
    while (sampler.busy_ns() == 0 && !first.passed()) (void)sampler.TakeLast();
    EXPECT_GT(sampler.busy_ns(), 0);
    while (!sampler.TakeLast().look && !first.passed()) SleepUs(1000);
    const int looks = Get<std::atomic<int>>("stand_in_looks");
    const Deadline second = Deadline::AfterMs(600);  // the next one begins after 19 × 50 ms
    while (!second.passed()) {
      (void)sampler.TakeLast();
      SleepUs(5000);
    }
    EXPECT_EQ(Get<std::atomic<int>>("stand_in_looks"), looks);
  }
  const Deadline deadline = Deadline::AfterMs(10'000);
  while (Get<std::atomic<int>>("stand_in_open") != 0 && !deadline.passed()) SleepUs(1000);
}

TEST(Gpus, AMissingLibraryIsNoError) {
  const auto gpus = LoadNvml("/nonexistent/libnvidia-ml.so.1");
  EXPECT_FALSE(gpus->available());
  EXPECT_TRUE(gpus->Look(GpuDepth::kUsage).empty());
}

TEST(Gpus, ALibraryThatIsSomethingElseIsNoError) { EXPECT_FALSE(LoadNvml("libm.so.6")->available()); }

}  // namespace
}  // namespace probing::observe
