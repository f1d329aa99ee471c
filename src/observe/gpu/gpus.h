// Gpus: the GPUs of this host, of all vendors.
#pragma once

#include "observe/gpu/gpu_driver.h"

namespace probing::observe {

// Not thread-safe. A driver in trouble may block a call for seconds, or for ever: see BackgroundSampler.
class Gpus {
 public:
  // Never null. Drivers without a device are left out.
  static std::unique_ptr<Gpus> Load(const GpuOptions& options = {});

  bool available() const { return !drivers_.empty(); }
  std::vector<GpuLook> Look(GpuDepth depth);

 private:
  std::vector<std::unique_ptr<GpuDriver>> drivers_;
};

// For `probing doctor`: of each vendor one sentence. Asks all drivers; `within_ms` bounds the wait for one
// that hangs.
struct GpuSupport {
  std::string vendor;  // NVIDIA, AMD, Ascend
  std::string text;
};
std::vector<GpuSupport> ExamineGpus(const GpuOptions& options, std::int64_t within_ms);

}  // namespace probing::observe
