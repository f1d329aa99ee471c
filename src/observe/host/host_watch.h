// HostWatch: the machine as a whole between two looks.
#pragma once

#include <optional>
#include <string>

#include "observe/host/counter.h"
#include "observe/host/kept_file.h"

namespace probing::observe {

struct HostLook {
  std::optional<double> cpu_percent;  // of all cores
  Number memory_total;                // bytes
  Number memory_available;
  Number memory_used;  // what is not available
  // Time in which some task waited for it (PSI); nullopt on kernels without.
  std::optional<double> cpu_pressure_percent;
  std::optional<double> memory_pressure_percent;
  std::optional<double> io_pressure_percent;
};

// Not thread-safe.
class HostWatch {
 public:
  explicit HostWatch(FileBudget* budget, const std::string& proc_root = "/proc");
  HostLook Look(std::int64_t interval_ns);

 private:
  struct Pressure {
    KeptFile file;
    Counter waited_us;
  };
  void LookAtCpu(HostLook& look);
  void LookAtMemory(HostLook& look);
  std::optional<double> LookAtPressure(Pressure& pressure, std::int64_t interval_ns);

  KeptFile stat_, meminfo_;
  Pressure cpu_, memory_, io_;
  Counter busy_ticks_, all_ticks_;
  std::string scratch_;
};

}  // namespace probing::observe
