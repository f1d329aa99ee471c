// The part of NVIDIA's management library that we call: names, numbers and structs as its header
// (nvml.h of version 12.9) has them. The library itself is found at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace probing::observe::nvml {

using Device = struct DeviceTag*;      // nvmlDevice_t
using EventSet = struct EventSetTag*;  // nvmlEventSet_t
using Return = int;                    // nvmlReturn_t
using Counter = unsigned long long;

inline constexpr Return kSuccess = 0;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;

inline constexpr int kTemperatureGpu = 0;             // NVML_TEMPERATURE_GPU
inline constexpr int kThresholdSlowdown = 1;          // NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
inline constexpr int kClockSm = 1;                    // NVML_CLOCK_SM
inline constexpr int kClockMemory = 2;                // NVML_CLOCK_MEM
inline constexpr int kEccCorrected = 0;               // NVML_MEMORY_ERROR_TYPE_CORRECTED
inline constexpr int kEccUncorrected = 1;             // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
inline constexpr int kEccVolatile = 0;                // NVML_VOLATILE_ECC
inline constexpr int kEccAggregate = 1;               // NVML_AGGREGATE_ECC
inline constexpr int kRetirementCauses = 2;           // NVML_PAGE_RETIREMENT_CAUSE_COUNT
inline constexpr unsigned kMaxLinks = 18;             // NVML_NVLINK_MAX_LINKS
inline constexpr int kLinkErrorKinds = 5;             // NVML_NVLINK_ERROR_COUNT
inline constexpr unsigned kTextBytes = 96;            // NVML_DEVICE_NAME_V2_BUFFER_SIZE, …UUID…
inline constexpr unsigned kAllLinks = ~0U;            // scope of a field: the sum of all links
inline constexpr Counter kNotAvailable = ~0ULL;       // NVML_VALUE_NOT_AVAILABLE
inline constexpr unsigned long long kEventXid = 0x8;  // nvmlEventTypeXidCriticalError

// NVML_FI_DEV_…
inline constexpr unsigned kFieldMemoryTemperature = 82;
inline constexpr unsigned kFieldLinkSentKib = 138;      // NVLINK_THROUGHPUT_DATA_TX
inline constexpr unsigned kFieldLinkReceivedKib = 139;  // NVLINK_THROUGHPUT_DATA_RX
inline constexpr unsigned kFieldPcieSent = 197;         // PCIE_COUNT_TX_BYTES
inline constexpr unsigned kFieldPcieReceived = 198;     // PCIE_COUNT_RX_BYTES

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

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct ProcessUtilization {  // nvmlProcessUtilizationSample_t
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;  // percent
};
static_assert(sizeof(ProcessUtilization) == 32);

struct Field {  // nvmlFieldValue_t
  unsigned id, scope;
  long long time_us, latency_us;
  int type;  // nvmlValueType_t
  Return result;
  union {
    double real;
    int int32;
    unsigned uint32;
    unsigned long long uint64;
    long long int64;
    unsigned short uint16;
  } value;
};
static_assert(sizeof(Field) == 40 && offsetof(Field, value) == 32);
enum FieldType { kReal, kUint32, kUlong, kUint64, kInt64, kInt32, kUint16 };

struct EventData {  // nvmlEventData_t
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);

// nvmlInit_v2, nvmlShutdown, … by dlsym. Those that are not there are nullptr.
struct Functions {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  Return (*driver_version)(char*, unsigned) = nullptr;
  Return (*device_count)(unsigned*) = nullptr;
  Return (*device_by_index)(unsigned, Device*) = nullptr;
  Return (*name)(Device, char*, unsigned) = nullptr;
  Return (*uuid)(Device, char*, unsigned) = nullptr;
  Return (*pci)(Device, PciInfo*) = nullptr;
  Return (*utilization)(Device, Utilization*) = nullptr;
  Return (*memory)(Device, Memory*) = nullptr;
  Return (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  Return (*process_utilization)(Device, ProcessUtilization*, unsigned*, unsigned long long) = nullptr;
  Return (*temperature)(Device, int, unsigned*) = nullptr;
  Return (*threshold)(Device, int, unsigned*) = nullptr;
  Return (*power)(Device, unsigned*) = nullptr;           // milliwatts
  Return (*power_limit)(Device, unsigned*) = nullptr;     // milliwatts
  Return (*clock)(Device, int, unsigned*) = nullptr;      // MHz
  Return (*clock_max)(Device, int, unsigned*) = nullptr;  // MHz
  Return (*throttle_reasons)(Device, Counter*) = nullptr;
  Return (*ecc)(Device, int, int, Counter*) = nullptr;
  Return (*retired_pages)(Device, int, unsigned*, Counter*) = nullptr;
  Return (*retire_pending)(Device, int*) = nullptr;
  Return (*remapped_rows)(Device, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  Return (*pcie_width)(Device, unsigned*) = nullptr;
  Return (*pcie_width_max)(Device, unsigned*) = nullptr;
  Return (*pcie_generation)(Device, unsigned*) = nullptr;
  Return (*pcie_generation_max)(Device, unsigned*) = nullptr;
  Return (*pcie_replays)(Device, unsigned*) = nullptr;
  Return (*link_state)(Device, unsigned, int*) = nullptr;
  Return (*link_errors)(Device, unsigned, int, Counter*) = nullptr;
  Return (*fields)(Device, int, Field*) = nullptr;
  Return (*event_set_create)(EventSet*) = nullptr;
  Return (*event_set_free)(EventSet) = nullptr;
  Return (*register_events)(Device, unsigned long long, EventSet) = nullptr;
  Return (*wait_event)(EventSet, EventData*, unsigned) = nullptr;
};

}  // namespace probing::observe::nvml
