#include "observe/host/target_series.h"

#include <algorithm>
#include <array>

#include "process/thread_status.h"

namespace probing::observe {
namespace {

using Names = std::span<const std::string_view>;

// In the order in which the functions below write.
constexpr std::array<std::string_view, 9> kCpuColumns{
    "cpu_percent",        "user_percent",         "system_percent", "children_percent",     "host_percent",
    "voluntary_switches", "involuntary_switches", "throttled_ms",   "host_pressure_percent"};
constexpr std::array<std::string_view, 11> kMemoryColumns{"rss",
                                                          "vms",
                                                          "shared",
                                                          "swap",
                                                          "children_rss",
                                                          "host_used",
                                                          "host_available",
                                                          "cgroup_limit",
                                                          "cgroup_used",
                                                          "major_faults",
                                                          "host_pressure_percent"};
constexpr std::array<std::string_view, 7> kIoColumns{"read_bytes",           "write_bytes", "read_calls",
                                                     "write_calls",          "read_rate",   "write_rate",
                                                     "host_pressure_percent"};
constexpr std::array<std::string_view, 8> kNetworkColumns{"interface",        "received_bytes", "sent_bytes",
                                                          "received_packets", "sent_packets",   "errors",
                                                          "receive_rate",     "send_rate"};
constexpr std::array<std::string_view, 11> kSocketsColumns{
    "local",  "remote",     "sent_bytes",    "received_bytes", "retransmissions", "unsent_bytes",
    "rtt_ms", "min_rtt_ms", "delivery_rate", "busy_ms",        "peer_limited_ms"};
constexpr std::array<std::string_view, 8> kThreadsColumns{"tid",
                                                          "name",
                                                          "state",
                                                          "cpu_percent",
                                                          "core",
                                                          "wait_channel",
                                                          "voluntary_switches",
                                                          "involuntary_switches"};
constexpr std::array<std::string_view, 3> kPythonMemoryColumns{"rss", "vms", "heap"};

struct Declared {
  std::string_view table;
  Names columns;
};
constexpr std::array kDeclared{Declared{"system.cpu", kCpuColumns},
                               Declared{"system.memory", kMemoryColumns},
                               Declared{"system.io", kIoColumns},
                               Declared{"system.network", kNetworkColumns},
                               Declared{"system.sockets", kSocketsColumns},
                               Declared{"system.threads", kThreadsColumns},
                               Declared{"python.memory", kPythonMemoryColumns}};

}  // namespace

Result<TargetSeries> TargetSeries::Create(ring::Arena& arena, const TargetSeriesOptions& options) {
  TargetSeries series(options);
  series.options_.quiet_every = std::max(options.quiet_every, 1);
  for (const Declared& declared : kDeclared) {
    if (declared.table == "python.memory" && !options.python_memory) continue;
    ASSIGN_OR_RETURN(SeriesTable table,
                     SeriesTable::Add(arena, declared.table, declared.columns, options.rows));
    series.tables_.push_back(std::move(table));
  }
  return series;
}

void TargetSeries::Write(std::int64_t time_ns, std::int64_t interval_ns, const HostLook& host,
                         const TargetLook& target) {
  tables_[kCpu].Write(
      time_ns, std::array<ring::Cell, kCpuColumns.size()>{
                   ToCell(target.cpu_percent), ToCell(target.user_percent), ToCell(target.system_percent),
                   ToCell(target.children_percent), ToCell(host.cpu_percent),
                   ToCell(target.voluntary_switches), ToCell(target.involuntary_switches),
                   ToCell(target.throttled_ms), ToCell(host.cpu_pressure_percent)});
  tables_[kMemory].Write(
      time_ns, std::array<ring::Cell, kMemoryColumns.size()>{
                   ToCell(target.rss), ToCell(target.vms), ToCell(target.shared), ToCell(target.swap),
                   ToCell(target.children_rss), ToCell(host.memory_used), ToCell(host.memory_available),
                   ToCell(target.cgroup.limit_bytes), ToCell(target.cgroup.used_bytes),
                   ToCell(target.major_faults), ToCell(host.memory_pressure_percent)});
  if (target.has_io) {
    tables_[kIo].Write(
        time_ns, std::array<ring::Cell, kIoColumns.size()>{
                     ToCell(target.read_bytes), ToCell(target.write_bytes), ToCell(target.read_calls),
                     ToCell(target.write_calls), ToCell(PerSecond(target.read_bytes, interval_ns)),
                     ToCell(PerSecond(target.write_bytes, interval_ns)), ToCell(host.io_pressure_percent)});
  }
  if (options_.python_memory) {
    Number heap;
    if (target.rss && target.shared) heap = *target.rss - *target.shared;
    tables_[kPythonMemory].Write(time_ns, std::array{ToCell(target.rss), ToCell(target.vms), ToCell(heap)});
  }
  WriteNetwork(time_ns, interval_ns, target);
  WriteThreads(time_ns, target);
  ++ticks_;
}

void TargetSeries::WriteNetwork(std::int64_t time_ns, std::int64_t interval_ns, const TargetLook& target) {
  for (const InterfaceLook& look : target.interfaces) {
    if (look.is_quiet && !IsQuietTick()) continue;
    tables_[kNetwork].Write(
        time_ns, std::array<ring::Cell, kNetworkColumns.size()>{
                     ToCell(std::string_view(look.name)), ToCell(look.received_bytes),
                     ToCell(look.sent_bytes), ToCell(look.received_packets), ToCell(look.sent_packets),
                     ToCell(look.errors), ToCell(PerSecond(look.received_bytes, interval_ns)),
                     ToCell(PerSecond(look.sent_bytes, interval_ns))});
  }
}

void TargetSeries::WriteConnections(std::int64_t time_ns, std::span<const ConnectionLook> connections) {
  for (const ConnectionLook& look : connections) {
    tables_[kSockets].Write(
        time_ns,
        std::array<ring::Cell, kSocketsColumns.size()>{
            ToCell(std::string_view(look.local)), ToCell(std::string_view(look.remote)),
            ToCell(look.sent_bytes), ToCell(look.received_bytes), ToCell(look.retransmissions),
            ring::Cell::Int(look.unsent_bytes), ring::Cell::Double(look.rtt_ms), ToCell(look.min_rtt_ms),
            ToCell(look.delivery_rate), ToCell(look.busy_ms), ToCell(look.peer_limited_ms)});
  }
}

void TargetSeries::WriteThreads(std::int64_t time_ns, const TargetLook& target) {
  for (const ThreadLook* look : target.threads) {
    if (!look->has_run && !IsQuietTick()) continue;
    tables_[kThreads].Write(
        time_ns,
        std::array<ring::Cell, kThreadsColumns.size()>{
            ring::Cell::Int(look->tid), ToCell(std::string_view(look->name)),
            ToCell(look->has_details ? process::StateWord(look->state) : std::string_view()),
            ToCell(look->cpu_percent), ToCell(look->core), ToCell(std::string_view(look->wait_channel)),
            ToCell(look->voluntary_switches), ToCell(look->involuntary_switches)});
  }
}

}  // namespace probing::observe
