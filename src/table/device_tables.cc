// Tables about GPUs of all vendors, RDMA ports and what the kernel says of them, read from outside.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr Column kTime{"timestamp", kTimestamp, "", "when it was measured"};
constexpr Column kDevice{"device", kInt64, "", "number of the GPU, among those of its vendor"};
constexpr Column kVendor{"vendor", kString, "", "nvidia, amd or ascend"};

constexpr std::array kGpu{
    kTime,
    kDevice,
    Column{"name", kString, "", "model of the GPU"},
    Column{"uuid", kString, "", "name of this one GPU for ever"},
    Column{"util_percent", kDouble, "%", "time in which a kernel ran"},
    Column{"memory_util_percent", kDouble, "%", "time in which its memory was read or written"},
    Column{"memory_used", kInt64, "bytes", "memory in use by everybody"},
    Column{"memory_total", kInt64, "bytes", "memory of the GPU"},
    Column{"process_memory", kInt64, "bytes", "memory in use by this process"},
    Column{"temperature", kDouble, "°C", "temperature of the GPU"},
    Column{"power", kDouble, "W", "power drawn"},
    Column{"sm_clock", kInt64, "MHz", "clock of its processors"},
    kVendor,
    Column{"process_util_percent", kDouble, "%", "time in which a kernel of this process ran; NVIDIA only"},
    Column{"power_limit", kDouble, "W", "power that it may draw"},
    Column{"memory_clock", kInt64, "MHz", "clock of its memory"},
};

// Counters are since the driver was loaded where nothing else is said.
constexpr std::array kGpuHealth{
    kTime,
    Column{"device", kInt64, "",
           "number of the GPU, among those of its vendor; NULL when the driver itself does not answer"},
    kVendor,
    Column{"name", kString, "", "model of the GPU"},
    Column{"uuid", kString, "", "name of this one GPU for ever"},
    Column{"pci", kString, "", "its PCI address, as in 0000:65:00.0"},
    Column{"fault", kString, "",
           "what the driver itself calls wrong: lost, to be reset, alarms; NULL: nothing"},
    Column{"throttle_reasons", kString, "",
           "why its clock is not higher, separated by commas: gpu_idle, applications_clocks, sw_power_cap, "
           "hw_slowdown, sync_boost, sw_thermal, hw_thermal, hw_power_brake, display_clocks, vr_thermal, "
           "memory_thermal, below_host_limit; none; NULL: not told"},
    Column{"is_throttled", kBool, "",
           "whether heat or the power supply slow it down (a power limit does not count)"},
    Column{"sm_clock", kInt64, "MHz", "clock of its processors"},
    Column{"sm_clock_max", kInt64, "MHz", "the highest that it can have"},
    Column{"temperature", kDouble, "°C", "temperature of the GPU"},
    Column{"temperature_limit", kDouble, "°C", "temperature at which it slows itself down (AMD: critical)"},
    Column{"memory_temperature", kDouble, "°C", "temperature of its memory"},
    Column{"power", kDouble, "W", "power drawn"},
    Column{"power_limit", kDouble, "W", "power that it may draw"},
    Column{"ecc_corrected", kInt64, "", "memory errors that were corrected"},
    Column{"ecc_uncorrected", kInt64, "", "memory errors that could not be corrected"},
    Column{"ecc_corrected_total", kInt64, "", "memory errors corrected since the GPU was made"},
    Column{"ecc_uncorrected_total", kInt64, "", "memory errors not corrected since the GPU was made"},
    Column{"retired_pages", kInt64, "", "pages of memory that are not used any more, for their errors"},
    Column{"retire_pending", kBool, "", "whether pages will be retired at the next reset"},
    Column{"remapped_rows_corrected", kInt64, "", "rows of memory replaced after errors that were corrected"},
    Column{"remapped_rows_uncorrected", kInt64, "", "rows of memory replaced after errors that were not"},
    Column{"remap_pending", kBool, "", "whether rows will be replaced at the next reset"},
    Column{"remap_failed", kBool, "", "whether a row could not be replaced: no spare one is left"},
    Column{"pcie_width", kInt64, "lanes", "lanes of PCI Express in use"},
    Column{"pcie_width_max", kInt64, "lanes", "lanes that the GPU and its slot have"},
    Column{"pcie_generation", kInt64, "", "generation of PCI Express in use; lower while the GPU is idle"},
    Column{"pcie_generation_max", kInt64, "", "generation that the GPU and its slot have"},
    Column{"pcie_replays", kInt64, "", "packets of PCI Express that were sent again"},
    Column{"pcie_sent_bytes", kInt64, "bytes", "sent over PCI Express; may begin again at 0"},
    Column{"pcie_received_bytes", kInt64, "bytes", "received over PCI Express; may begin again at 0"},
    Column{"links", kInt64, "", "NVLinks that it has"},
    Column{"links_active", kInt64, "", "NVLinks that are up"},
    Column{"link_errors", kInt64, "", "errors, replays and recoveries of all NVLinks"},
    Column{"link_sent_bytes", kInt64, "bytes", "sent over all NVLinks"},
    Column{"link_received_bytes", kInt64, "bytes", "received over all NVLinks"},
    Column{"xid", kInt64, "", "the latest Xid error since the row before; NULL: none"},
};

constexpr std::array kGpuProcesses{
    kTime,
    kDevice,
    kVendor,
    Column{"process", kInt64, "", "process id of a process that computes on it, as the host sees it"},
    Column{"is_target", kBool, "", "whether that is the target, or a child of it"},
    Column{"memory", kInt64, "bytes", "memory in use by that process"},
    Column{"util_percent", kDouble, "%", "time in which a kernel of that process ran; NVIDIA only"},
};

constexpr std::array kRdma{
    kTime,
    Column{"device", kString, "", "name of the device, as in mlx5_0"},
    Column{"port", kInt64, "", "number of the port"},
    Column{"link_layer", kString, "", "InfiniBand, or Ethernet (RoCE)"},
    Column{"state", kString, "", "active, down, init, armed"},
    Column{"physical_state", kString, "", "linkup, polling, disabled, …"},
    Column{"speed", kDouble, "Gbit/s", "speed of the link"},
    Column{"received_bytes", kInt64, "bytes", "received in this interval"},
    Column{"sent_bytes", kInt64, "bytes", "sent in this interval"},
    Column{"receive_rate", kDouble, "bytes/s", "received_bytes by time"},
    Column{"send_rate", kDouble, "bytes/s", "sent_bytes by time"},
    Column{"received_packets", kInt64, "", "received in this interval"},
    Column{"sent_packets", kInt64, "", "sent in this interval"},
    Column{"errors", kInt64, "", "packets damaged, refused or thrown away in this interval"},
    Column{"link_downs", kInt64, "", "times the link went down in this interval"},
    Column{"retransmissions", kInt64, "", "packets sent or asked for again in this interval"},
    Column{"congestion_marks", kInt64, "", "packets that switches marked for congestion, in this interval"},
    Column{"wait_ticks", kInt64, "ticks",
           "of the port, in which data was ready and could not be sent, in this interval"},
};

constexpr std::array kKernelLog{
    Column{"timestamp", kTimestamp, "", "when the kernel logged it"},
    Column{"kind", kString, "",
           "xid, nvlink, gpu, oom, hung_task, lockup, mce, pcie, link, segfault; NULL for all other lines"},
    Column{"level", kString, "", "emergency, alert, critical, error, warning, notice, info, debug"},
    Column{"message", kString, "", "the line"},
    Column{"pid", kInt64, "",
           "process that the line names; NULL in a container, where the kernel's numbers mean others"},
    Column{"process_name", kString, "", "name of that process, as the kernel has it (15 characters)"},
    Column{"pci", kString, "", "PCI address of the device that the line names"},
    Column{"code", kInt64, "", "number of the Xid, or of the NVSwitch's SXid"},
    Column{"rank", kInt64, "", "rank of that process, when it is a target"},
};

constexpr std::array kTables{
    Table{"system.gpu", Kind::kStored, Origin::kOutside, "GPUs over time", kGpu},
    Table{"gpu.health", Kind::kStored, Origin::kOutside,
          "errors, throttling and links of the GPUs that the target uses, over time", kGpuHealth},
    Table{"gpu.processes", Kind::kStored, Origin::kOutside,
          "processes on the GPUs that the target uses, over time", kGpuProcesses},
    Table{"system.rdma", Kind::kStored, Origin::kOutside, "InfiniBand and RoCE ports of the host over time",
          kRdma},
    Table{"system.kernel_log", Kind::kLive, Origin::kOutside,
          "what the kernel of the host has logged and still has: errors of GPUs, memory that ran out, hung "
          "tasks",
          kKernelLog},
};

}  // namespace

std::span<const Table> DeviceTables() { return kTables; }

}  // namespace probing::table
