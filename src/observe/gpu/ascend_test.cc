#include "observe/gpu/ascend.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "observe/host/fake_proc.h"

namespace probing::observe {
namespace {

// As npu-smi 24.1 prints it, with a chip that has an alarm.
constexpr const char* kNpuSmi =
    R"(+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 2     910B3               | OK            | 101.8       43                0    / 0             |
| 0                         | 0000:C1:00.0  | 7           0    / 0          59356/ 65536         |
+===========================+===============+====================================================+
| 6     910B3               | Alarm         | 92.0        39                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          3314 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 2       0                 | 1712733       | python                   | 48954                   |
+===========================+===============+====================================================+
| No running processes found in NPU 6                                                            |
+===========================+===============+====================================================+
)";

TEST(Ascend, TheLibraryTellsUseAndHealth) {
  const auto ascend = OpenAscend({.dcmi_library = PROBING_DCMI_STAND_IN, .npu_smi = "/nonexistent"});
  ASSERT_TRUE(ascend->available());
  const auto looks = ascend->Look(GpuDepth::kHealth);
  ASSERT_EQ(looks.size(), 2U) << "a controller is no NPU";
  const GpuLook& look = looks[0];
  EXPECT_EQ(look.vendor, "ascend");
  EXPECT_EQ(look.name, "910B3");
  EXPECT_EQ(look.pci, "0000:c1:00.0");
  EXPECT_EQ(look.util_percent, 83);
  EXPECT_EQ(look.memory_util_percent, 21);
  EXPECT_EQ(look.memory_used, std::int64_t{3300} << 20);
  EXPECT_EQ(look.memory_total, std::int64_t{65536} << 20);
  EXPECT_EQ(look.temperature, 44);
  EXPECT_EQ(look.power, 162.4);
  EXPECT_EQ(look.sm_clock, 1650);
  EXPECT_EQ(look.memory_clock, 1600);
  ASSERT_EQ(look.processes.size(), 1U);
  EXPECT_EQ(look.processes[0].pid, 4711);
  EXPECT_EQ(look.processes[0].memory_bytes, 1 << 30);
  const GpuHealth& health = look.health.value();
  EXPECT_EQ(health.sm_clock_max, 1800);
  EXPECT_EQ(health.memory_temperature, 51);
  EXPECT_EQ(health.ecc_corrected, 3);
  EXPECT_EQ(health.ecc_uncorrected, 1);
  EXPECT_EQ(health.ecc_corrected_total, 30);
  EXPECT_EQ(health.ecc_uncorrected_total, 10);
  EXPECT_EQ(health.retired_pages, 3);
  EXPECT_EQ(health.fault, "");
  EXPECT_EQ(looks[1].device, 1);
  EXPECT_EQ(looks[1].util_percent, std::nullopt);
  EXPECT_EQ(looks[1].health->fault, "critical alarm: 0x80E01801, 0x80CD8008");
  EXPECT_NE(ascend->Describe().find("driver 24.1.rc2, 2 NPUs"), std::string::npos) << ascend->Describe();
}

TEST(Ascend, WithoutTheLibraryTheProgramIsAsked) {
  FakeProc folder;
  folder.Write("npu-smi",
               std::string("#!/bin/sh\n[ \"$1\" = info ] || exit 1\ncat <<'END'\n") + kNpuSmi + "END\n");
  const std::string program = folder.root() + "/npu-smi";
  ASSERT_EQ(chmod(program.c_str(), 0700), 0);
  const auto ascend = OpenAscend({.dcmi_library = "/nonexistent", .npu_smi = program});
  ASSERT_TRUE(ascend->available());
  EXPECT_TRUE(ascend->Look(GpuDepth::kUsage).empty());
  EXPECT_EQ(ascend->Look(GpuDepth::kHealth).size(), 2U);
  EXPECT_NE(ascend->Describe().find("tells of 2 NPUs"), std::string::npos);
}

TEST(Ascend, TheProgramsTextIsRead) {
  const auto looks = ParseNpuSmi(kNpuSmi);
  ASSERT_EQ(looks.size(), 2U);
  EXPECT_EQ(looks[0].name, "910B3");
  EXPECT_EQ(looks[0].pci, "0000:c1:00.0");
  EXPECT_EQ(looks[0].power, 101.8);
  EXPECT_EQ(looks[0].temperature, 43);
  EXPECT_EQ(looks[0].util_percent, 7);
  EXPECT_EQ(looks[0].memory_used, std::int64_t{59356} << 20);
  EXPECT_EQ(looks[0].memory_total, std::int64_t{65536} << 20);
  ASSERT_EQ(looks[0].processes.size(), 1U);
  EXPECT_EQ(looks[0].processes[0].pid, 1712733);
  EXPECT_EQ(looks[0].processes[0].memory_bytes, std::int64_t{48954} << 20);
  EXPECT_EQ(looks[0].health->fault, "");
  EXPECT_EQ(looks[1].device, 1);
  EXPECT_EQ(looks[1].health->fault, "alarm");
  EXPECT_TRUE(looks[1].processes.empty());
}

TEST(Ascend, OtherTextHasNoDevices) {
  EXPECT_TRUE(ParseNpuSmi("").empty());
  EXPECT_TRUE(
      ParseNpuSmi("dcmi model initialized failed, because the device is used. ret is -8020\n").empty());
  EXPECT_TRUE(ParseNpuSmi("| 0 |\n| | | |\n||||\n| 0 | 0000:C1:00.0 | 1 |\n").empty());
}

TEST(Ascend, AMachineWithoutOneIsNoError) {
  const auto ascend = OpenAscend({.dcmi_library = "libm.so.6", .npu_smi = "/nonexistent"});
  EXPECT_FALSE(ascend->available());
  EXPECT_TRUE(ascend->Look(GpuDepth::kHealth).empty());
  EXPECT_NE(ascend->Describe().find("no DCMI that we know"), std::string::npos);
}

}  // namespace
}  // namespace probing::observe
