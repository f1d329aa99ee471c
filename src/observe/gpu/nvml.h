// NVIDIA's GPUs, through the driver's own library (NVML), loaded when needed.
#pragma once

#include "observe/gpu/gpu_driver.h"

namespace probing::observe {

// Never null.
std::unique_ptr<GpuDriver> OpenNvml(const GpuOptions& options);

}  // namespace probing::observe
