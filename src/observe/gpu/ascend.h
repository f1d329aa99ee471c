// Huawei's NPUs (Ascend), through the driver's own library (DCMI), loaded when needed; where there is none,
// through what the program `npu-smi info` prints.
#pragma once

#include "observe/gpu/gpu_driver.h"

namespace probing::observe {

// Never null.
std::unique_ptr<GpuDriver> OpenAscend(const GpuOptions& options);

// The devices in the table that `npu-smi info` prints, with their processes. Text of other shapes has none.
std::vector<GpuLook> ParseNpuSmi(std::string_view text);

}  // namespace probing::observe
