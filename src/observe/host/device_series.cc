#include "observe/host/device_series.h"

#include <algorithm>
#include <array>

#include "observe/host/counter.h"

namespace probing::observe {
namespace {

using Names = std::span<const std::string_view>;

// In the order in which the functions below write.
constexpr std::array<std::string_view, 15> kGpuColumns{
    "device",      "name",           "uuid",        "util_percent", "memory_util_percent",
    "memory_used", "memory_total",   "temperature", "power",        "sm_clock",
    "vendor",      "process_memory", "power_limit", "memory_clock", "process_util_percent"};
constexpr std::array<std::string_view, 38> kHealthColumns{"device",
                                                          "vendor",
                                                          "name",
                                                          "uuid",
                                                          "pci",
                                                          "fault",
                                                          "throttle_reasons",
                                                          "is_throttled",
                                                          "sm_clock",
                                                          "sm_clock_max",
                                                          "temperature",
                                                          "temperature_limit",
                                                          "memory_temperature",
                                                          "power",
                                                          "power_limit",
                                                          "ecc_corrected",
                                                          "ecc_uncorrected",
                                                          "ecc_corrected_total",
                                                          "ecc_uncorrected_total",
                                                          "retired_pages",
                                                          "retire_pending",
                                                          "remapped_rows_corrected",
                                                          "remapped_rows_uncorrected",
                                                          "remap_pending",
                                                          "remap_failed",
                                                          "pcie_width",
                                                          "pcie_width_max",
                                                          "pcie_generation",
                                                          "pcie_generation_max",
                                                          "pcie_replays",
                                                          "pcie_sent_bytes",
                                                          "pcie_received_bytes",
                                                          "links",
                                                          "links_active",
                                                          "link_errors",
                                                          "link_sent_bytes",
                                                          "link_received_bytes",
                                                          "xid"};
constexpr std::array<std::string_view, 6> kProcessesColumns{"device",    "vendor", "process",
                                                            "is_target", "memory", "util_percent"};
constexpr std::array<std::string_view, 17> kRdmaColumns{
    "device",         "port",       "link_layer",       "state",
    "physical_state", "speed",      "received_bytes",   "sent_bytes",
    "receive_rate",   "send_rate",  "received_packets", "sent_packets",
    "errors",         "link_downs", "retransmissions",  "congestion_marks",
    "wait_ticks"};

struct Declared {
  std::string_view table;
  Names columns;
};
constexpr std::array kDeclared{Declared{"system.gpu", kGpuColumns}, Declared{"gpu.health", kHealthColumns},
                               Declared{"gpu.processes", kProcessesColumns},
                               Declared{"system.rdma", kRdmaColumns}};

ring::Cell ToCell(std::optional<bool> value) {
  return value.has_value() ? ring::Cell::Bool(*value) : ring::Cell::Null();
}
using observe::ToCell;

bool IsOneOf(pid_t pid, std::span<const pid_t> pids) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

bool IsUsedBy(const GpuLook& gpu, std::span<const pid_t> pids) {
  return std::any_of(gpu.processes.begin(), gpu.processes.end(),
                     [&](const GpuProcess& process) { return IsOneOf(process.pid, pids); });
}

// A process has one entry for each of its contexts.
Number MemoryOf(const GpuLook& gpu, std::span<const pid_t> pids) {
  Number sum;
  for (const GpuProcess& process : gpu.processes) {
    if (IsOneOf(process.pid, pids) && process.memory_bytes) sum = Plus(sum.value_or(0), process.memory_bytes);
  }
  return sum;
}

std::optional<double> UtilizationOf(const GpuLook& gpu, std::span<const pid_t> pids) {
  std::optional<double> sum;
  for (const GpuProcess& process : gpu.processes) {
    if (IsOneOf(process.pid, pids) && process.util_percent)
      sum = std::min(100.0, sum.value_or(0) + *process.util_percent);
  }
  return sum;
}

}  // namespace

Result<DeviceSeries> DeviceSeries::Create(ring::Arena& arena, std::uint64_t rows) {
  DeviceSeries series;
  for (const Declared& declared : kDeclared) {
    ASSIGN_OR_RETURN(SeriesTable table, SeriesTable::Add(arena, declared.table, declared.columns, rows));
    series.tables_.push_back(std::move(table));
  }
  return series;
}

void DeviceSeries::WriteGpus(std::int64_t time_ns, std::span<const GpuLook> gpus,
                             std::span<const pid_t> pids) {
  const bool uses_some =
      std::any_of(gpus.begin(), gpus.end(), [&](const GpuLook& gpu) { return IsUsedBy(gpu, pids); });
  for (const GpuLook& gpu : gpus) {
    // A lost GPU tells no users any more.
    if (gpu.health && (gpu.is_lost || !uses_some || IsUsedBy(gpu, pids))) {
      WriteHealth(time_ns, gpu);
      WriteProcesses(time_ns, gpu, pids);
    }
    if (gpu.is_lost || (uses_some && !IsUsedBy(gpu, pids))) continue;
    tables_[kGpu].Write(
        time_ns,
        std::array<ring::Cell, kGpuColumns.size()>{
            ring::Cell::Int(gpu.device), ToCell(std::string_view(gpu.name)),
            ToCell(std::string_view(gpu.uuid)), ToCell(gpu.util_percent), ToCell(gpu.memory_util_percent),
            ToCell(gpu.memory_used), ToCell(gpu.memory_total), ToCell(gpu.temperature), ToCell(gpu.power),
            ToCell(gpu.sm_clock), ToCell(gpu.vendor), ToCell(MemoryOf(gpu, pids)), ToCell(gpu.power_limit),
            ToCell(gpu.memory_clock), ToCell(UtilizationOf(gpu, pids))});
  }
}

void DeviceSeries::WriteHealth(std::int64_t time_ns, const GpuLook& gpu) {
  const GpuHealth& health = *gpu.health;
  tables_[kHealth].Write(time_ns, std::array<ring::Cell, kHealthColumns.size()>{
                                      ring::Cell::Int(gpu.device),
                                      ToCell(gpu.vendor),
                                      ToCell(std::string_view(gpu.name)),
                                      ToCell(std::string_view(gpu.uuid)),
                                      ToCell(std::string_view(gpu.pci)),
                                      ToCell(std::string_view(health.fault)),
                                      ToCell(std::string_view(health.throttle_reasons)),
                                      ToCell(health.is_throttled),
                                      ToCell(gpu.sm_clock),
                                      ToCell(health.sm_clock_max),
                                      ToCell(gpu.temperature),
                                      ToCell(health.temperature_limit),
                                      ToCell(health.memory_temperature),
                                      ToCell(gpu.power),
                                      ToCell(gpu.power_limit),
                                      ToCell(health.ecc_corrected),
                                      ToCell(health.ecc_uncorrected),
                                      ToCell(health.ecc_corrected_total),
                                      ToCell(health.ecc_uncorrected_total),
                                      ToCell(health.retired_pages),
                                      ToCell(health.retire_pending),
                                      ToCell(health.remapped_rows_corrected),
                                      ToCell(health.remapped_rows_uncorrected),
                                      ToCell(health.remap_pending),
                                      ToCell(health.remap_failed),
                                      ToCell(health.pcie_width),
                                      ToCell(health.pcie_width_max),
                                      ToCell(health.pcie_generation),
                                      ToCell(health.pcie_generation_max),
                                      ToCell(health.pcie_replays),
                                      ToCell(health.pcie_sent_bytes),
                                      ToCell(health.pcie_received_bytes),
                                      ToCell(health.links),
                                      ToCell(health.links_active),
                                      ToCell(health.link_errors),
                                      ToCell(health.link_sent_bytes),
                                      ToCell(health.link_received_bytes),
                                      ToCell(health.xid)});
}

void DeviceSeries::WriteProcesses(std::int64_t time_ns, const GpuLook& gpu, std::span<const pid_t> pids) {
  for (const GpuProcess& process : gpu.processes) {
    tables_[kProcesses].Write(
        time_ns, std::array<ring::Cell, kProcessesColumns.size()>{
                     ring::Cell::Int(gpu.device), ToCell(gpu.vendor), ring::Cell::Int(process.pid),
                     ring::Cell::Bool(IsOneOf(process.pid, pids)), ToCell(process.memory_bytes),
                     ToCell(process.util_percent)});
  }
}

void DeviceSeries::WriteSilence(std::int64_t time_ns, std::int64_t silent_ns) {
  std::array<ring::Cell, kHealthColumns.size()> row;
  row.fill(ring::Cell::Null());
  const std::string fault =
      "the driver of the GPUs has not answered for " + std::to_string(silent_ns / 1'000'000'000) + " s";
  row[5] = ToCell(std::string_view(fault));
  static_assert(kHealthColumns[5] == "fault");
  tables_[kHealth].Write(time_ns, row);
}

void DeviceSeries::WriteRdma(std::int64_t time_ns, std::int64_t interval_ns,
                             std::span<const RdmaLook> ports) {
  for (const RdmaLook& look : ports) {
    tables_[kRdma].Write(
        time_ns, std::array<ring::Cell, kRdmaColumns.size()>{
                     ToCell(std::string_view(look.device)), ring::Cell::Int(look.port),
                     ToCell(std::string_view(look.link_layer)), ToCell(std::string_view(look.state)),
                     ToCell(std::string_view(look.physical_state)), ToCell(look.speed_gbps),
                     ToCell(look.received_bytes), ToCell(look.sent_bytes),
                     ToCell(PerSecond(look.received_bytes, interval_ns)),
                     ToCell(PerSecond(look.sent_bytes, interval_ns)), ToCell(look.received_packets),
                     ToCell(look.sent_packets), ToCell(look.errors), ToCell(look.link_downs),
                     ToCell(look.retransmissions), ToCell(look.congestion_marks), ToCell(look.wait_ticks)});
  }
}

}  // namespace probing::observe
