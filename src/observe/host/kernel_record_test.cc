#include "observe/host/kernel_record.h"

#include <gtest/gtest.h>

#include "observe/host/fake_proc.h"
#include "observe/host/kernel_log_table.h"

namespace probing::observe {
namespace {

KernelRecord Parsed(const std::string& message) {
  const auto record = ParseKernelRecord("3,1234,567890,-;" + message);
  EXPECT_TRUE(record.has_value()) << message;
  return record.value_or(KernelRecord{});
}

TEST(KernelRecord, AnXidNamesTheDeviceAndTheProcess) {
  const KernelRecord record =
      Parsed("NVRM: Xid (PCI:0000:65:00): 31, pid=4711, name=python3, Ch 00000008, MMU Fault");
  EXPECT_EQ(record.kind, "xid");
  EXPECT_EQ(record.level, "error");
  EXPECT_EQ(record.since_boot_us, 567890);
  EXPECT_EQ(record.code, 31);
  EXPECT_EQ(record.pci, "0000:65:00");
  EXPECT_EQ(record.pid, 4711);
  EXPECT_EQ(record.process_name, "python3");
  const KernelRecord lost =
      Parsed("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  EXPECT_EQ(lost.code, 79);
  EXPECT_EQ(lost.pid, std::nullopt);
  EXPECT_EQ(lost.process_name, "");
}

TEST(KernelRecord, NvLinkAndNvSwitch) {
  const KernelRecord link =
      Parsed("NVRM: Xid (PCI:0000:9d:00): 74, pid=17, name=python, NVLink: fatal error detected on link 14");
  EXPECT_EQ(link.kind, "nvlink");
  EXPECT_EQ(link.code, 74);
  const KernelRecord fabric =
      Parsed("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 31 LTSSM Fault Up");
  EXPECT_EQ(fabric.kind, "nvlink");
  EXPECT_EQ(fabric.code, 20034);
  EXPECT_EQ(fabric.pci, "0000:05:00.0");
}

TEST(KernelRecord, WhatTheKernelKilled) {
  const KernelRecord killed =
      Parsed("Memory cgroup out of memory: Killed process 17 (pt_data_worker) total-vm:1kB");
  EXPECT_EQ(killed.kind, "oom");
  EXPECT_EQ(killed.pid, 17);
  EXPECT_EQ(killed.process_name, "pt_data_worker");
  EXPECT_EQ(Parsed("Killed process 17, UID 0, (python) total-vm:1kB").process_name, "python");
  const KernelRecord chosen = Parsed("oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=18,uid=0");
  EXPECT_EQ(chosen.pid, 18);
  EXPECT_EQ(chosen.process_name, "python");
  EXPECT_EQ(Parsed("python invoked oom-killer: gfp_mask=0xcc0").process_name, "python");
}

TEST(KernelRecord, WhatHangs) {
  const KernelRecord hung = Parsed("INFO: task python:4711 blocked for more than 120 seconds.");
  EXPECT_EQ(hung.kind, "hung_task");
  EXPECT_EQ(hung.pid, 4711);
  EXPECT_EQ(hung.process_name, "python");
  const KernelRecord stuck = Parsed("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [a:b:4711]");
  EXPECT_EQ(stuck.kind, "lockup");
  EXPECT_EQ(stuck.pid, 4711);
  EXPECT_EQ(stuck.process_name, "a:b");
  const KernelRecord fault = Parsed("python[17]: segfault at 0 ip 0000000000000000 sp 00007ffd error 14");
  EXPECT_EQ(fault.kind, "segfault");
  EXPECT_EQ(fault.pid, 17);
}

TEST(KernelRecord, OtherHardware) {
  EXPECT_EQ(Parsed("mce: [Hardware Error]: Machine check events logged").kind, "mce");
  EXPECT_EQ(Parsed("EDAC MC0: 1 CE memory read error on CPU_SrcID#0").kind, "mce");
  const KernelRecord bus = Parsed("pcieport 0000:00:01.0: AER: Corrected error received: 0000:65:00.0");
  EXPECT_EQ(bus.kind, "pcie");
  EXPECT_EQ(bus.pci, "0000:00:01.0");
  const KernelRecord amd = Parsed(
      "amdgpu 0000:c1:00.0: amdgpu: ring gfx timeout, Process information: process python pid 99 thread p");
  EXPECT_EQ(amd.kind, "gpu");
  EXPECT_EQ(amd.pid, 99);
  EXPECT_EQ(amd.process_name, "python");
  EXPECT_EQ(Parsed("mlx5_core 0000:17:00.0 ens1f0: Link down").kind, "link");
  EXPECT_EQ(Parsed("eth0: link becomes ready").kind, "");
}

TEST(KernelRecord, TextOfOthersIsNoRecord) {
  for (const char* line : {"", ";", "x;y", " SUBSYSTEM=pci", "6,1;short", "-1,2,3,-;negative"})
    EXPECT_FALSE(ParseKernelRecord(line).has_value()) << line;
  EXPECT_EQ(Parsed("a\tb\x1b[31mc").message, "a b [31mc");
  EXPECT_EQ(Parsed("NVRM: Xid (PCI:").kind, "xid");
  EXPECT_EQ(Parsed(":").pci, "");
  EXPECT_EQ(Parsed("Killed process 99999999999999999999 (x)").pid, std::nullopt);
}

TEST(KernelLog, EveryRecordIsARow) {
  FakeProc folder;
  folder.Write(
      "kmsg",
      "6,1,1000000,-;eth0: link becomes ready\n SUBSYSTEM=net\n"
      "3,2,2000000,-;NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen\n");
  const auto source = MakeKernelLogSource(folder.root() + "/kmsg");
  table::ScanRequest request;
  request.columns = {1, 3, 6, 7};
  auto parts = source->Parts(request);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 1U);
  EXPECT_EQ(parts->at(0).target, nullptr) << "without targets it is still the host's";
}

TEST(KernelLog, ALogThatMayNotBeReadIsSaid) {
  const auto source = MakeKernelLogSource("/nonexistent/kmsg");
  auto parts = source->Parts({});
  ASSERT_TRUE(parts.ok());
  auto cursor = parts->at(0).open();
  ASSERT_TRUE(cursor.ok());
  EXPECT_NE((*cursor)->note().find("kernel.dmesg_restrict"), std::string_view::npos);
}

}  // namespace
}  // namespace probing::observe
