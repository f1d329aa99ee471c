// GpuDriver: the GPUs of one vendor on this host, and what is known of each at one moment.
//
// Implementations: nvml.h (NVIDIA), amd.h (AMD), ascend.h (Huawei). Only probingd and `probing doctor` call
// them, never a target. No library, no driver or no GPU is no error: no rows. A number that a device, a
// driver or an older library does not have is left out.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "observe/host/proc_text.h"

namespace probing::observe {

struct GpuProcess {
  pid_t pid = 0;  // as the driver sees it: of the host
  std::optional<std::int64_t> memory_bytes;
  std::optional<double> util_percent;  // of the time since the look before
};

// What seldom changes, and costs more to ask. Counters are since the driver was loaded unless said otherwise.
struct GpuHealth {
  std::string throttle_reasons;      // words of ThrottleReason(), separated by commas; "none"; "" unknown
  std::optional<bool> is_throttled;  // by heat or by the power supply; a power limit is none of these
  Number sm_clock_max;               // MHz
  std::optional<double> temperature_limit, memory_temperature;  // °C
  Number ecc_corrected, ecc_uncorrected;
  Number ecc_corrected_total, ecc_uncorrected_total;  // since the device was made
  Number retired_pages;
  std::optional<bool> retire_pending;
  Number remapped_rows_corrected, remapped_rows_uncorrected;
  std::optional<bool> remap_pending, remap_failed;
  Number pcie_width, pcie_width_max;  // lanes
  Number pcie_generation, pcie_generation_max;
  Number pcie_replays;
  Number pcie_sent_bytes, pcie_received_bytes;
  Number links, links_active, link_errors;  // NVLink
  Number link_sent_bytes, link_received_bytes;
  Number xid;         // the latest since the look before
  std::string fault;  // what the driver itself calls wrong, in words
};

struct GpuLook {
  int device = 0;
  std::string_view vendor;  // nvidia, amd, ascend; for ever
  std::string name, uuid, pci;
  std::optional<double> util_percent, memory_util_percent;
  std::optional<std::int64_t> memory_used, memory_total;  // bytes
  std::optional<double> temperature;                      // °C
  std::optional<double> power, power_limit;               // W
  std::optional<std::int64_t> sm_clock, memory_clock;     // MHz
  std::vector<GpuProcess> processes;                      // those that compute
  std::optional<GpuHealth> health;
  bool is_lost = false;  // nothing but its health says something
};

enum class GpuDepth { kUsage, kHealth };

// Not thread-safe. A driver in trouble may block a call for seconds, or for ever.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual bool available() const = 0;  // there is a device
  // With kHealth also devices that are lost.
  virtual std::vector<GpuLook> Look(GpuDepth depth) = 0;
  // One sentence for people: versions, devices, what is missing.
  virtual std::string Describe() const = 0;
};

struct GpuOptions {
  // "" stands for the usual name. PROBING_NVML, PROBING_AMDSMI, PROBING_DCMI and PROBING_SYSFS name others.
  std::string nvml_library, amdsmi_library, dcmi_library;
  std::string npu_smi;   // the program, asked where there is no DCMI
  std::string sys_root;  // in place of /sys
};

// `given`, else the variable, else `usual`.
std::string NameOf(const std::string& given, const char* variable, const char* usual);

}  // namespace probing::observe
