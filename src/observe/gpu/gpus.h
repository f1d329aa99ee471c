// Gpus: the NVIDIA GPUs of this host, through the driver's own library (NVML) loaded when needed.
//
// Only probingd calls this, never a target. No library, no driver or no GPU: no rows and no error. A
// device that fails, or a number that it does not have, is left out.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "observe/gpu/nvml_abi.h"

namespace probing::observe {

struct GpuProcess {
  pid_t pid = 0;  // as the driver sees it: of the host
  std::optional<std::int64_t> memory_bytes;
};

struct GpuLook {
  int device = 0;
  std::string name, uuid;
  std::optional<double> util_percent, memory_util_percent;
  std::optional<std::int64_t> memory_used, memory_total;  // bytes
  std::optional<double> temperature;                      // °C
  std::optional<double> power;                            // W
  std::optional<std::int64_t> sm_clock;                   // MHz
  std::vector<GpuProcess> processes;                      // those that compute
};

// Not thread-safe. A driver in trouble may block a call for seconds.
class Gpus {
 public:
  // Never null. `library` is for tests; by default PROBING_NVML, then libnvidia-ml.so.1.
  static std::unique_ptr<Gpus> Load(std::string library = "");
  ~Gpus();
  Gpus(const Gpus&) = delete;
  Gpus& operator=(const Gpus&) = delete;

  bool available() const { return !devices_.empty(); }
  std::vector<GpuLook> Look();

 private:
  struct Device {
    int index;
    nvml::Device handle;
    std::string name, uuid;
  };
  Gpus() = default;
  void FindDevices();
  std::vector<GpuProcess> ProcessesOf(const Device& device);

  void* library_ = nullptr;
  bool initialized_ = false;
  nvml::Functions functions_;
  std::vector<Device> devices_;
};

}  // namespace probing::observe
