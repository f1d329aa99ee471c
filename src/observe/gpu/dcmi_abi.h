// The part of Huawei's management library (libdcmi.so) that we call: names, numbers and structs as
// dcmi_interface_api.h has them. Devices are named by their card and their number on it.
#pragma once

#include <cstdint>

namespace probing::observe::dcmi {

inline constexpr int kMostCards = 64;
inline constexpr int kMostProcesses = 256;  // of a device; the driver has 32
inline constexpr int kMostErrorCodes = 128;

inline constexpr int kUtilizationCore = 2;     // DCMI_UTILIZATION_RATE_AICORE
inline constexpr int kUtilizationMemory = 10;  // DCMI_UTILIZATION_RATE_HBM_BANDWIDTH
inline constexpr int kFrequencyHbm = 6;        // DCMI_FREQ_HBM
inline constexpr int kFrequencyCore = 7;       // DCMI_FREQ_AICORE_CURRENT_
inline constexpr int kFrequencyCoreMax = 9;    // DCMI_FREQ_AICORE_MAX
inline constexpr int kDeviceHbm = 2;           // DCMI_DEVICE_TYPE_HBM

struct ChipInfo {  // dcmi_chip_info
  unsigned char type[32], name[32], version[32];
  unsigned cores;
};
static_assert(sizeof(ChipInfo) == 100);

struct HbmInfo {  // dcmi_hbm_info
  unsigned long long size_mb;
  unsigned clock_mhz;
  unsigned long long used_mb;
  int temperature;
  unsigned bandwidth_percent;
};
static_assert(sizeof(HbmInfo) == 32);

struct EccInfo {  // dcmi_ecc_info
  int is_enabled;
  unsigned corrected, uncorrected, corrected_total, uncorrected_total;
  unsigned corrected_isolated_pages, uncorrected_isolated_pages;
};
static_assert(sizeof(EccInfo) == 28);

struct PcieInfo {  // dcmi_pcie_info_all
  unsigned vendor, subvendor, device, subdevice;
  int domain;
  unsigned bus, slot, function;
  unsigned char reserved[32];
};
static_assert(sizeof(PcieInfo) == 64);

struct ProcessMemory {  // dcmi_proc_mem_info
  int pid;
  unsigned long bytes;
};
static_assert(sizeof(ProcessMemory) == 16);

// dcmi_init, dcmi_get_card_list, … by dlsym. Those that are not there are nullptr.
struct Functions {
  int (*init)() = nullptr;
  int (*card_list)(int*, int*, int) = nullptr;
  int (*device_count)(int, int*) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*chip_info)(int, int, ChipInfo*) = nullptr;
  int (*pcie_info)(int, int, PcieInfo*) = nullptr;
  int (*utilization)(int, int, int, unsigned*) = nullptr;
  int (*temperature)(int, int, int*) = nullptr;
  int (*power)(int, int, int*) = nullptr;  // tenths of a watt
  int (*frequency)(int, int, int, unsigned*) = nullptr;
  int (*hbm)(int, int, HbmInfo*) = nullptr;
  int (*ecc)(int, int, int, EccInfo*) = nullptr;
  int (*health)(int, int, unsigned*) = nullptr;
  int (*error_codes)(int, int, int*, unsigned*, unsigned) = nullptr;
  int (*processes)(int, int, ProcessMemory*, int*) = nullptr;
};

}  // namespace probing::observe::dcmi
