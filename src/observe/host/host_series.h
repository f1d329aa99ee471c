// HostSeries: system.* about targets, tick by tick, written into rings that probingd owns.
//
//   HostSeries series({});
//   RETURN_IF_ERROR(series.Add(pid, *arena_of_that_target));
//   every second: for (pid_t ended : series.Tick()) …
//
// What of the host is in those rows is read once for all targets. Not thread-safe: one thread ticks.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "observe/gpu/background_sampler.h"
#include "observe/gpu/gpu_driver.h"
#include "observe/host/device_series.h"
#include "observe/host/target_series.h"

namespace probing::observe {

struct HostSeriesOptions {
  std::string proc_root = "/proc";
  GpuOptions gpu;  // for tests
};

class HostSeries {
 public:
  explicit HostSeries(const HostSeriesOptions& options);

  // The arena gets the tables and outlives the target here. kNotFound when there is no such process.
  Result<void> Add(pid_t pid, ring::Arena& arena, const TargetSeriesOptions& options = {});
  // Its rows stay in the arena.
  void Remove(pid_t pid);

  // One look at every target. Those that have ended since the last are removed and returned.
  std::vector<pid_t> Tick();

 private:
  struct Target {
    std::unique_ptr<TargetWatch> watch;
    TargetSeries series;
    DeviceSeries devices;
    ConnectionWatch connections;
  };
  void WriteConnections(Target& target);
  void WriteDevices();

  const std::string proc_root_;
  FileBudget budget_;
  HostWatch host_;
  NetworkSpaces networks_;
  BackgroundSampler<std::vector<GpuLook>> gpus_;
  BackgroundSampler<std::vector<RdmaLook>> rdma_;
  std::int64_t last_rdma_ns_ = 0;     // wall time of the look before
  std::int64_t last_silence_ns_ = 0;  // when a silent driver was written down last
  std::uint64_t ticks_ = 0;
  std::map<pid_t, Target> targets_;
  std::int64_t last_tick_ns_ = 0;
};

}  // namespace probing::observe
