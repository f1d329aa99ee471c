// GpuSampler: looks at the GPUs on a thread of its own, because a driver in trouble may block for ever.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "observe/gpu/gpus.h"

namespace probing::observe {

// Thread-safe.
class GpuSampler {
 public:
  struct Sample {
    std::int64_t time_ns = 0;  // wall time
    std::vector<GpuLook> looks;
  };

  // See Gpus::Load for `library`. Nothing is loaded before the first sample is asked for.
  explicit GpuSampler(std::string library = "");
  // Does not wait for a look that is under way.
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  // What was seen since the last call, if anything; and has another look taken. Never blocks. Without
  // GPUs there is never anything, and no thread.
  Sample TakeLast();

 private:
  struct Shared;
  static void* RunThread(void* argument);
  static void Run(Shared& shared);

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this by one look
};

}  // namespace probing::observe
