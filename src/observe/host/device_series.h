// DeviceSeries: turns looks at GPUs and RDMA ports into rows of a target: system.gpu, gpu.*, system.rdma.
#pragma once

#include <span>
#include <vector>

#include "observe/gpu/gpu_driver.h"
#include "observe/host/rdma.h"
#include "observe/host/series_table.h"

namespace probing::observe {

class DeviceSeries {
 public:
  // The arena outlives this. Each table keeps so many rows.
  static Result<DeviceSeries> Create(ring::Arena& arena, std::uint64_t rows);

  // `pids` are the target and its children. Devices they use, or all when they use none that the driver
  // tells.
  void WriteGpus(std::int64_t time_ns, std::span<const GpuLook> gpus, std::span<const pid_t> pids);
  // A driver that has not answered for so long.
  void WriteSilence(std::int64_t time_ns, std::int64_t silent_ns);
  void WriteRdma(std::int64_t time_ns, std::int64_t interval_ns, std::span<const RdmaLook> ports);

 private:
  enum Which : std::uint8_t { kGpu, kHealth, kProcesses, kRdma };

  void WriteHealth(std::int64_t time_ns, const GpuLook& gpu);
  void WriteProcesses(std::int64_t time_ns, const GpuLook& gpu, std::span<const pid_t> pids);

  std::vector<SeriesTable> tables_;  // by Which
};

}  // namespace probing::observe
