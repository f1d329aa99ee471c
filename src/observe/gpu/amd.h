// AMD's GPUs, from files of the kernel's driver (amdgpu) below /sys: use, memory, sensors, ECC, PCIe,
// processes. What throttles a GPU is told by AMD's library (libamd_smi.so), where that is installed.
#pragma once

#include "observe/gpu/gpu_driver.h"

namespace probing::observe {

// Never null.
std::unique_ptr<GpuDriver> OpenAmd(const GpuOptions& options);

}  // namespace probing::observe
