// Plays libnvidia-ml.so.1 in the tests, with the signatures of nvml.h. Three GPUs: 0 answers everything,
// 1 cannot be opened, 2 has nothing but memory. The stand_in_* variables are for the tests to change; where
// they cannot, the process of STAND_IN_PID uses STAND_IN_GROWTH more megabytes each second, or the file
// STAND_IN_FILE says "PID MEGABYTES", written by a process that plays having a GPU.
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

static int IndexOf(nvmlDevice_t device) { return (int)(long)device - 1; }

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
  if (IndexOf(device) == stand_in_lost_device) return kLost;
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
  if (IndexOf(device) != 0 || type != 1) return kNotSupported;
  *clock = 1980;
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
