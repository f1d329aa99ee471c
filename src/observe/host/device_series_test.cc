#include "observe/host/device_series.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "base/clock.h"
#include "observe/gpu/gpus.h"
#include "observe/gpu/testing/fake_amd.h"
#include "observe/host/ring_rows.h"
#include "table/registry.h"

namespace probing::observe {
namespace {

std::unique_ptr<ring::Arena> MakeArena() {
  auto arena = ring::Arena::Create({});
  EXPECT_TRUE(arena.ok());
  return std::move(*arena);
}

// Columns that had a value in no row at all.
std::set<std::string> NeverFilled(const ring::Arena& arena, std::string_view table) {
  std::set<std::string> missing;
  for (const table::Column& column : table::FindTable(table)->columns) missing.emplace(column.name);
  for (const TextRow& row : ReadRows(arena, table)) {
    for (const auto& [name, value] : row) {
      if (value) missing.erase(name);
    }
  }
  return missing;
}

// Recorded by the stand-ins of all three vendors.
TEST(DeviceSeries, EveryColumnHasAValue) {
  void* nvml = dlopen(PROBING_NVML_STAND_IN, RTLD_NOW);
  ASSERT_NE(nvml, nullptr);
  *static_cast<unsigned*>(dlsym(nvml, "stand_in_pid")) = 4711;
  *static_cast<int*>(dlsym(nvml, "stand_in_xid")) = 79;
  FakeProc sys;
  WriteFakeAmd(sys);
  const std::string port = "class/infiniband/mlx5_0/ports/1/";
  sys.Write(port + "link_layer", "Ethernet\n");
  sys.Write(port + "state", "4: ACTIVE\n");
  sys.Write(port + "phys_state", "5: LinkUp\n");
  sys.Write(port + "rate", "100 Gb/sec (4X EDR)\n");
  RdmaWatch rdma(sys.root());
  const auto write_counters = [&](const std::string& value) {
    for (const char* name :
         {"counters/port_rcv_data", "counters/port_xmit_data", "counters/port_rcv_packets",
          "counters/port_xmit_packets", "counters/symbol_error", "counters/link_downed",
          "counters/port_xmit_wait", "hw_counters/packet_seq_err", "hw_counters/rp_cnp_handled"})
      sys.Write(port + name, value);
  };
  const auto arena = MakeArena();
  auto series = DeviceSeries::Create(*arena, 1000);
  ASSERT_TRUE(series.ok());
  const std::vector<pid_t> pids{4711};
  {
    const auto gpus = Gpus::Load({.nvml_library = PROBING_NVML_STAND_IN,
                                  .amdsmi_library = PROBING_AMDSMI_STAND_IN,
                                  .dcmi_library = PROBING_DCMI_STAND_IN,
                                  .npu_smi = "/nonexistent",
                                  .sys_root = sys.root()});
    series->WriteGpus(WallNs(), gpus->Look(GpuDepth::kHealth), pids);
    *static_cast<int*>(dlsym(nvml, "stand_in_lost_device")) = 0;
    series->WriteGpus(WallNs(), gpus->Look(GpuDepth::kHealth), pids);
  }
  write_counters("5\n");
  series->WriteRdma(WallNs(), 0, rdma.Look());
  write_counters("9\n");
  series->WriteRdma(WallNs(), 1'000'000'000, rdma.Look());
  for (const char* table : {"system.gpu", "gpu.health", "gpu.processes", "system.rdma"})
    EXPECT_EQ(NeverFilled(*arena, table), std::set<std::string>()) << table;

  std::set<std::string> vendors;
  for (const TextRow& row : ReadRows(*arena, "gpu.health")) vendors.insert(row.at("vendor").value_or(""));
  EXPECT_EQ(vendors, (std::set<std::string>{"nvidia", "amd", "ascend"}));
  dlclose(nvml);
}

TEST(DeviceSeries, ASilentDriverIsARowWithoutADevice) {
  const auto arena = MakeArena();
  auto series = DeviceSeries::Create(*arena, 100);
  ASSERT_TRUE(series.ok());
  series->WriteSilence(WallNs(), 31'000'000'000);
  const auto rows = ReadRows(*arena, "gpu.health");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("device"), std::nullopt);
  EXPECT_EQ(rows[0].at("fault"), "the driver of the GPUs has not answered for 31 s");
}

}  // namespace
}  // namespace probing::observe
