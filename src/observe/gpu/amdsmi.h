// AmdSmi: the part of AMD's library (libamd_smi.so) that says what /sys does not: why a GPU is throttled.
//
// Names, numbers and structs as amdsmi 7.0 (PyPI) has them. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace probing::observe {

namespace amdsmi {

inline constexpr std::uint64_t kInitGpus = 1 << 1;  // AMDSMI_INIT_AMD_GPUS

// amdsmi_violation_status_t begins so in all versions that have it; later versions are longer.
struct Violations {
  std::uint64_t counters[9], percents[6];
  std::uint8_t prochot, package_power, socket_thermal, vr_thermal, memory_thermal, below_host_limit;
  std::uint8_t rest[16384 - 126];  // 6,016 bytes in 7.0
};
static_assert(offsetof(Violations, prochot) == 120 && sizeof(Violations) == 16384);

struct Version {  // amdsmi_version_t
  std::uint32_t major, minor, release;
  const char* build;
};

}  // namespace amdsmi

class AmdSmi {
 public:
  explicit AmdSmi(const std::string& library);
  ~AmdSmi();
  AmdSmi(const AmdSmi&) = delete;
  AmdSmi& operator=(const AmdSmi&) = delete;

  // By PCI address, "0000:c1:00.0". nullopt when it does not say.
  std::optional<amdsmi::Violations> ViolationsOf(const std::string& pci);
  // For people.
  const std::string& description() const { return description_; }

 private:
  void FindDevices();

  void* library_ = nullptr;
  bool initialized_ = false;
  std::string description_;
  int (*violations_)(void*, amdsmi::Violations*) = nullptr;
  std::map<std::string, void*> devices_;
};

}  // namespace probing::observe
