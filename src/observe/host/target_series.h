// TargetSeries: turns looks at a target into rows of its system.* tables.
#pragma once

#include <span>
#include <vector>

#include "observe/host/connections.h"
#include "observe/host/host_watch.h"
#include "observe/host/series_table.h"
#include "observe/host/target_watch.h"

namespace probing::observe {

struct TargetSeriesOptions {
  std::uint64_t rows = 10'000;  // that each table keeps
  // Threads that sleep and interfaces without traffic get a row in one of so many ticks: a process has
  // hundreds of such threads, and they would push what matters out of the ring.
  int quiet_every = 10;
  // Whether to write rss, vms and heap to python.memory: also while the interpreter answers nobody.
  bool python_memory = false;
};

class TargetSeries {
 public:
  // The arena outlives this.
  static Result<TargetSeries> Create(ring::Arena& arena, const TargetSeriesOptions& options);

  void Write(std::int64_t time_ns, std::int64_t interval_ns, const HostLook& host, const TargetLook& target);
  void WriteConnections(std::int64_t time_ns, std::span<const ConnectionLook> connections);

 private:
  enum Which : std::uint8_t { kCpu, kMemory, kIo, kNetwork, kSockets, kThreads, kPythonMemory };

  explicit TargetSeries(const TargetSeriesOptions& options) : options_(options) {}
  void WriteThreads(std::int64_t time_ns, const TargetLook& target);
  void WriteNetwork(std::int64_t time_ns, std::int64_t interval_ns, const TargetLook& target);
  bool IsQuietTick() const { return ticks_ % static_cast<std::uint64_t>(options_.quiet_every) == 0; }

  TargetSeriesOptions options_;
  std::vector<SeriesTable> tables_;  // by Which
  std::uint64_t ticks_ = 0;
};

}  // namespace probing::observe
