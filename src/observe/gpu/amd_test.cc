#include "observe/gpu/amd.h"

#include <gtest/gtest.h>

#include "observe/gpu/testing/fake_amd.h"

namespace probing::observe {
namespace {

TEST(Amd, UseAndHealthComeFromSys) {
  FakeProc sys;
  WriteFakeAmd(sys);
  const auto amd = OpenAmd({.amdsmi_library = PROBING_AMDSMI_STAND_IN, .sys_root = sys.root()});
  ASSERT_TRUE(amd->available());
  const auto looks = amd->Look(GpuDepth::kHealth);
  ASSERT_EQ(looks.size(), 2U) << "card1 is of another vendor, card0-DP-1 is a connector";
  const GpuLook& look = looks[0];
  EXPECT_EQ(look.vendor, "amd");
  EXPECT_EQ(look.device, 0);
  EXPECT_EQ(look.name, "AMD Instinct MI300X");
  EXPECT_EQ(look.uuid, "a1b2c3d4e5f60718");
  EXPECT_EQ(look.pci, "0000:c1:00.0");
  EXPECT_EQ(look.util_percent, 88);
  EXPECT_EQ(look.memory_util_percent, 33);
  EXPECT_EQ(look.memory_used, 5'000'000'000);
  EXPECT_EQ(look.memory_total, 206'141'652'992);
  EXPECT_EQ(look.temperature, 71) << "of the junction, not of the edge";
  EXPECT_EQ(look.power, 512.5);
  EXPECT_EQ(look.power_limit, 750);
  EXPECT_EQ(look.sm_clock, 2100);
  EXPECT_EQ(look.memory_clock, 1300);
  ASSERT_EQ(look.processes.size(), 1U);
  EXPECT_EQ(look.processes[0].pid, 4711);
  EXPECT_EQ(look.processes[0].memory_bytes, 1'073'741'824);
  const GpuHealth& health = look.health.value();
  EXPECT_EQ(health.ecc_corrected, 7) << "of all blocks";
  EXPECT_EQ(health.ecc_uncorrected, 1);
  EXPECT_EQ(health.retired_pages, 2);
  EXPECT_EQ(health.retire_pending, true);
  EXPECT_EQ(health.pcie_width, 8);
  EXPECT_EQ(health.pcie_width_max, 16);
  EXPECT_EQ(health.pcie_generation, 4);
  EXPECT_EQ(health.pcie_generation_max, 5);
  EXPECT_EQ(health.pcie_replays, 9);
  EXPECT_EQ(health.temperature_limit, 100);
  EXPECT_EQ(health.memory_temperature, 62);
  EXPECT_EQ(health.throttle_reasons, "sw_power_cap,memory_thermal");
  EXPECT_EQ(health.is_throttled, true);
  // The library does not know what throttles the other, which has hardly any files.
  EXPECT_EQ(looks[1].name, "AMD GPU 0x74a1");
  EXPECT_EQ(looks[1].util_percent, std::nullopt);
  EXPECT_EQ(looks[1].health->throttle_reasons, "");
  EXPECT_EQ(looks[1].health->is_throttled, std::nullopt);
  EXPECT_NE(amd->Describe().find("26.0.2"), std::string::npos) << amd->Describe();
}

TEST(Amd, WithoutTheLibraryOnlyThrottlingIsUnknown) {
  FakeProc sys;
  WriteFakeAmd(sys);
  const auto amd = OpenAmd({.amdsmi_library = "/nonexistent", .sys_root = sys.root()});
  const auto looks = amd->Look(GpuDepth::kHealth);
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_EQ(looks[0].health->throttle_reasons, "");
  EXPECT_EQ(looks[0].health->ecc_corrected, 7);
  EXPECT_NE(amd->Describe().find("no /nonexistent here: what throttles a GPU is not known"),
            std::string::npos);
}

TEST(Amd, AMachineWithoutOneIsNoError) {
  FakeProc sys;
  const auto amd = OpenAmd({.amdsmi_library = "libm.so.6", .sys_root = sys.root()});
  EXPECT_FALSE(amd->available());
  EXPECT_TRUE(amd->Look(GpuDepth::kHealth).empty());
}

}  // namespace
}  // namespace probing::observe
