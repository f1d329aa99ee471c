// Plays libnvidia-ml.so.1 in the tests, with the signatures of nvml.h. Three GPUs: 0 answers everything,
// 1 cannot be opened, 2 has nothing but memory. The stand_in_* variables are for the tests to change; where
// they cannot, the process of STAND_IN_PID uses STAND_IN_GROWTH more megabytes each second, or the file
// STAND_IN_FILE says "PID MEGABYTES", written by a process that plays having a GPU. STAND_IN_TROUBLE names a
// file whose words make GPU 0 ill: hot, xid, ecc, lost.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct nvmlDevice_st* nvmlDevice_t;
enum {
  kOk = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kLost = 15
};

struct Utilization {
  unsigned gpu, memory;
};
struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

int stand_in_has_driver = 1;
int stand_in_lost_device = -1;
unsigned stand_in_pid = 0;
unsigned stand_in_processes = 2;
_Atomic int stand_in_open = 0;  // calls of nvmlInit_v2 less those of nvmlShutdown

unsigned stand_in_pcie_width = 16;
int stand_in_xid = 0;           // given out once
unsigned stand_in_look_ms = 0;  // how long nvmlDeviceGetMemoryInfo takes
_Atomic int stand_in_looks = 0;

static int IndexOf(nvmlDevice_t device) { return (int)(long)device - 1; }

static int HasTrouble(const char* word) {
  const char* path = getenv("STAND_IN_TROUBLE");
  FILE* file = path != NULL ? fopen(path, "r") : NULL;
  char words[256] = "";
  if (file != NULL) {
    words[fread(words, 1, sizeof(words) - 1, file)] = 0;
    fclose(file);
  }
  return strstr(words, word) != NULL;
}

int nvmlInit_v2(void) {
  if (!stand_in_has_driver) return kDriverNotLoaded;
  ++stand_in_open;
  return kOk;
}
int nvmlShutdown(void) {
  --stand_in_open;
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (index == 1) return kNoPermission;
  *device = (nvmlDevice_t)(long)(index + 1);
  return kOk;
}
int nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned length) {
  if (length < 32) return kInsufficientSize;
  strcpy(name, IndexOf(device) == 0 ? "Stand-in H100" : "Stand-in T4");
  return kOk;
}
int nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned length) {
  if (length < 32) return kInsufficientSize;
  strcpy(uuid, IndexOf(device) == 0 ? "GPU-0000" : "GPU-0002");
  return kOk;
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct Memory* memory) {
  ++stand_in_looks;
  if (stand_in_look_ms > 0) {
    struct timespec pause = {stand_in_look_ms / 1000, stand_in_look_ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
  }
  if (IndexOf(device) == stand_in_lost_device) return kLost;
  if (IndexOf(device) == 0 && HasTrouble("lost")) return kLost;
  memory->total = 80ULL << 30;
  memory->used = 10ULL << 30;
  memory->free = 70ULL << 30;
  return kOk;
}
int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct Utilization* utilization) {
  if (IndexOf(device) != 0) return kNotSupported;
  utilization->gpu = 97;
  utilization->memory = 41;
  return kOk;
}
int nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned* temperature) {
  if (IndexOf(device) != 0 || sensor != 0) return kNotSupported;
  *temperature = 61;
  return kOk;
}
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  if (IndexOf(device) != 0) return kNotSupported;
  *milliwatts = 325500;
  return kOk;
}
int nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned* clock) {
  if (IndexOf(device) != 0 || (type != 1 && type != 2)) return kNotSupported;
  *clock = type == 1 ? 1980 : 2619;
  return kOk;
}
int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned* clock) {
  if (IndexOf(device) != 0 || type != 1) return kNotSupported;
  *clock = 1995;
  return kOk;
}
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (length < 80) return kInsufficientSize;
  strcpy(version, "550.54.15");
  return kOk;
}

struct Pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct Pci* pci) {
  memset(pci, 0, sizeof(*pci));
  strcpy(pci->bus_id, IndexOf(device) == 0 ? "00000000:65:00.0" : "00000000:66:00.0");
  return kOk;
}
int nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int kind, unsigned* temperature) {
  if (IndexOf(device) != 0 || kind != 1) return kNotSupported;
  *temperature = 95;
  return kOk;
}
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatts) {
  if (IndexOf(device) != 0) return kNotSupported;
  *milliwatts = 700000;
  return kOk;
}
// Named as in drivers before CUDA 12.2: the newer name is not there.
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  if (IndexOf(device) != 0) return kNotSupported;
  *reasons = HasTrouble("hot") ? 0x60 : 0x4;
  return kOk;
}
int nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int error, int since, unsigned long long* count) {
  if (IndexOf(device) != 0) return kNotSupported;
  *count = (unsigned long long)(since == 0   ? (error == 0          ? 3
                                                : HasTrouble("ecc") ? 2
                                                                    : 0)
                                : error == 0 ? 11
                                             : 2);
  return kOk;
}
int nvmlDeviceGetRetiredPages(nvmlDevice_t device, int cause, unsigned* count, unsigned long long* pages) {
  (void)pages;
  if (IndexOf(device) != 0) return kNotSupported;
  const unsigned room = *count;
  *count = cause == 0 ? 4 : 1;
  return room < *count ? kInsufficientSize : kOk;
}
int nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int* pending) {
  if (IndexOf(device) != 0) return kNotSupported;
  *pending = 1;
  return kOk;
}
int nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  if (IndexOf(device) != 0) return kNotSupported;
  *corrected = 6;
  *uncorrected = 7;
  *pending = 0;
  *failed = 0;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned* width) {
  *width = IndexOf(device) == 0 ? stand_in_pcie_width : 16;
  return kOk;
}
int nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned* width) {
  (void)device;
  *width = 16;
  return kOk;
}
int nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned* generation) {
  (void)device;
  *generation = 4;
  return kOk;
}
int nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned* generation) {
  (void)device;
  *generation = 5;
  return kOk;
}
int nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned* count) {
  if (IndexOf(device) != 0) return kNotSupported;
  *count = 12;
  return kOk;
}
int nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int* active) {
  if (IndexOf(device) != 0 || link >= 4) return kNotSupported;
  *active = link != 3;
  return kOk;
}
int nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int kind, unsigned long long* count) {
  if (IndexOf(device) != 0 || kind == 4) return kNotSupported;
  *count = link == 0 && kind == 2 ? 5 : link == 1 && kind == 0 ? 2 : 0;
  return kOk;
}

struct Field {
  unsigned id, scope;
  long long time, latency;
  int type, result;
  union {
    unsigned small;
    unsigned long long large;
  } value;
};
int nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct Field* fields) {
  for (int i = 0; i < count; ++i) {
    struct Field* field = &fields[i];
    field->result = IndexOf(device) == 0 ? kOk : kNotSupported;
    field->type = 3;
    if (field->id == 82) {
      field->type = 1;
      field->value.small = 70;
    } else if (field->id == 138 || field->id == 139) {
      if (field->scope != ~0U) field->result = kNotSupported;
      field->value.large = field->id == 138 ? 1000 : 2000;
    } else if (field->id == 197 || field->id == 198) {
      field->value.large = field->id == 197 ? 123456789 : 987654321;
    } else {
      field->result = kNotSupported;
    }
  }
  return kOk;
}

struct Event {
  nvmlDevice_t device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
static int registered;
int nvmlEventSetCreate(void** set) {
  *set = &registered;
  return kOk;
}
int nvmlEventSetFree(void* set) {
  (void)set;
  registered = 0;
  return kOk;
}
int nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, void* set) {
  (void)set;
  if (types != 8) return kNotSupported;
  if (IndexOf(device) == 0) registered = 1;
  return kOk;
}
int nvmlEventSetWait_v2(void* set, struct Event* event, unsigned timeout_ms) {
  (void)set;
  const int xid = stand_in_xid != 0 ? stand_in_xid : HasTrouble("xid") ? 79 : 0;
  if (!registered || xid == 0 || timeout_ms != 0) return kTimeout;
  static int given;
  if (stand_in_xid == 0 && given) return kTimeout;
  given = 1;
  stand_in_xid = 0;
  *event = (struct Event){(nvmlDevice_t)1L, 8, (unsigned long long)xid, ~0U, ~0U};
  return kOk;
}

struct ProcessSample {
  unsigned pid;
  unsigned long long time;
  unsigned sm, memory, encoder, decoder;
};
// Two samples for the first process since the time that is given, none afterwards.
int nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct ProcessSample* samples, unsigned* count,
                                    unsigned long long since) {
  if (IndexOf(device) != 0) return kNotSupported;
  const unsigned room = *count;
  *count = since < 2000 ? 2 : 0;
  if (*count == 0) return 6;  // not found: nothing since then
  if (samples == NULL || room < *count) return kInsufficientSize;
  samples[0] = (struct ProcessSample){stand_in_pid, 1000, 40, 10, 0, 0};
  samples[1] = (struct ProcessSample){stand_in_pid, 2000, 60, 20, 0, 0};
  return kOk;
}
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, struct Process* processes) {
  const unsigned room = *count;
  if (IndexOf(device) != 0) return kNotSupported;
  *count = stand_in_processes;
  if (room < stand_in_processes) return kInsufficientSize;
  for (unsigned i = 0; i < stand_in_processes; ++i) {
    processes[i] = (struct Process){i + 1000000, 1ULL << 30, 0xFFFFFFFF, 0xFFFFFFFF};
  }
  if (stand_in_processes > 0) processes[0].pid = stand_in_pid;
  const char* pid = getenv("STAND_IN_PID");
  const char* growth = getenv("STAND_IN_GROWTH");
  if (pid != NULL && growth != NULL && stand_in_processes > 0) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    static double began;
    const double seconds = now.tv_sec + now.tv_nsec / 1e9;
    if (began == 0) began = seconds;
    processes[0].pid = (unsigned)atoi(pid);
    processes[0].memory += (unsigned long long)((seconds - began) * atof(growth) * (1 << 20));
  }
  const char* path = getenv("STAND_IN_FILE");
  FILE* file = path != NULL && stand_in_processes > 0 ? fopen(path, "r") : NULL;
  unsigned long long megabytes = 0;
  if (file != NULL && fscanf(file, "%u %llu", &processes[0].pid, &megabytes) == 2)
    processes[0].memory = megabytes << 20;
  if (file != NULL) fclose(file);
  if (stand_in_processes > 1) processes[1].memory = ~0ULL;  // not available
  return kOk;
}
