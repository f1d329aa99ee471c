// The part of NVIDIA's management library that we call: names, numbers and structs as its header
// (nvml.h of version 12.9) has them. The library itself is found at run time.
#pragma once

#include <cstdint>

namespace probing::observe::nvml {

using Device = struct DeviceTag*;  // nvmlDevice_t
using Return = int;                // nvmlReturn_t

inline constexpr Return kSuccess = 0;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kGpuIsLost = 15;

inline constexpr int kTemperatureGpu = 0;                   // NVML_TEMPERATURE_GPU
inline constexpr int kClockSm = 1;                          // NVML_CLOCK_SM
inline constexpr unsigned kTextBytes = 96;                  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, …UUID…
inline constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

struct Utilization {
  unsigned gpu;     // percent
  unsigned memory;  // percent
};
static_assert(sizeof(Utilization) == 8);

struct Memory {                          // nvmlMemory_t, version 1: every driver has it
  unsigned long long total, free, used;  // bytes
};
static_assert(sizeof(Memory) == 24);

struct ProcessInfo {  // nvmlProcessInfo_v2_t, also of the _v3 functions
  unsigned pid;
  unsigned long long used_gpu_memory;
  unsigned gpu_instance_id;
  unsigned compute_instance_id;
};
static_assert(sizeof(ProcessInfo) == 24);

// nvmlInit_v2, nvmlShutdown, … by dlsym. Those that are not there are nullptr.
struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*device_count)(unsigned*) = nullptr;
  Return (*device_by_index)(unsigned, Device*) = nullptr;
  Return (*name)(Device, char*, unsigned) = nullptr;
  Return (*uuid)(Device, char*, unsigned) = nullptr;
  Return (*utilization)(Device, Utilization*) = nullptr;
  Return (*memory)(Device, Memory*) = nullptr;
  Return (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  Return (*temperature)(Device, int, unsigned*) = nullptr;
  Return (*power)(Device, unsigned*) = nullptr;       // milliwatts
  Return (*clock)(Device, int, unsigned*) = nullptr;  // MHz
};

}  // namespace probing::observe::nvml
