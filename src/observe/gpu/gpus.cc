#include "observe/gpu/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace probing::observe {
namespace {

constexpr unsigned kMostDevices = 256;
constexpr unsigned kMostProcesses = 4096;

template <typename Function>
void Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

nvml::Functions FindFunctions(void* library) {
  nvml::Functions found;
  Find(library, "nvmlInit_v2", found.init);
  Find(library, "nvmlShutdown", found.shutdown);
  Find(library, "nvmlDeviceGetCount_v2", found.device_count);
  Find(library, "nvmlDeviceGetHandleByIndex_v2", found.device_by_index);
  Find(library, "nvmlDeviceGetName", found.name);
  Find(library, "nvmlDeviceGetUUID", found.uuid);
  Find(library, "nvmlDeviceGetUtilizationRates", found.utilization);
  Find(library, "nvmlDeviceGetMemoryInfo", found.memory);
  Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", found.processes);
  // The same struct; drivers 450 to 510 have only this one.
  if (found.processes == nullptr) Find(library, "nvmlDeviceGetComputeRunningProcesses_v2", found.processes);
  Find(library, "nvmlDeviceGetTemperature", found.temperature);
  Find(library, "nvmlDeviceGetPowerUsage", found.power);
  Find(library, "nvmlDeviceGetClockInfo", found.clock);
  return found;
}

// What the function writes, or nothing when it is not there or fails.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> Ask(Function* function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != nvml::kSuccess) return std::nullopt;
  return value;
}

std::string AskText(nvml::Return (*function)(nvml::Device, char*, unsigned), nvml::Device device) {
  std::array<char, nvml::kTextBytes> text{};
  if (function == nullptr || function(device, text.data(), text.size()) != nvml::kSuccess) return "";
  return std::string(text.data(), strnlen(text.data(), text.size()));
}

std::optional<std::int64_t> Bytes(unsigned long long bytes) {
  if (bytes > static_cast<unsigned long long>(INT64_MAX)) return std::nullopt;  // also kNotAvailable
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

std::unique_ptr<Gpus> Gpus::Load(std::string library) {
  std::unique_ptr<Gpus> gpus(new Gpus());
  if (library.empty()) {
    const char* named = std::getenv("PROBING_NVML");
    library = named != nullptr && *named != '\0' ? named : "libnvidia-ml.so.1";
  }
  gpus->library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (gpus->library_ == nullptr) return gpus;
  gpus->functions_ = FindFunctions(gpus->library_);
  const nvml::Functions& call = gpus->functions_;
  if (call.init == nullptr || call.device_count == nullptr || call.device_by_index == nullptr) return gpus;
  gpus->initialized_ = call.init() == nvml::kSuccess;
  if (gpus->initialized_) gpus->FindDevices();
  return gpus;
}

Gpus::~Gpus() {
  if (initialized_ && functions_.shutdown != nullptr) functions_.shutdown();
  if (library_ != nullptr) dlclose(library_);
}

void Gpus::FindDevices() {
  const unsigned count = std::min(Ask<unsigned>(functions_.device_count).value_or(0), kMostDevices);
  for (unsigned i = 0; i < count; ++i) {
    const auto handle = Ask<nvml::Device>(functions_.device_by_index, i);
    if (!handle.has_value()) continue;  // no permission, or lost
    devices_.push_back(
        {static_cast<int>(i), *handle, AskText(functions_.name, *handle), AskText(functions_.uuid, *handle)});
  }
}

std::vector<GpuLook> Gpus::Look() {
  std::vector<GpuLook> looks;
  for (const Device& device : devices_) {
    GpuLook look;
    look.device = device.index;
    look.name = device.name;
    look.uuid = device.uuid;
    // A lost GPU answers nothing from now on, so the first call decides.
    nvml::Memory memory{};
    const nvml::Return answer =
        functions_.memory != nullptr ? functions_.memory(device.handle, &memory) : nvml::kSuccess;
    if (answer == nvml::kGpuIsLost) continue;
    if (functions_.memory != nullptr && answer == nvml::kSuccess) {
      look.memory_used = Bytes(memory.used);
      look.memory_total = Bytes(memory.total);
    }
    if (const auto utilization = Ask<nvml::Utilization>(functions_.utilization, device.handle)) {
      look.util_percent = utilization->gpu;
      look.memory_util_percent = utilization->memory;
    }
    look.temperature = Ask<unsigned>(functions_.temperature, device.handle, nvml::kTemperatureGpu);
    if (const auto milliwatts = Ask<unsigned>(functions_.power, device.handle))
      look.power = *milliwatts / 1e3;
    look.sm_clock = Ask<unsigned>(functions_.clock, device.handle, nvml::kClockSm);
    look.processes = ProcessesOf(device);
    looks.push_back(std::move(look));
  }
  return looks;
}

std::vector<GpuProcess> Gpus::ProcessesOf(const Device& device) {
  if (functions_.processes == nullptr) return {};
  std::vector<nvml::ProcessInfo> infos(64);
  for (int attempt = 0; attempt < 3; ++attempt) {  // processes come while we make room for them
    unsigned count = static_cast<unsigned>(infos.size());
    const nvml::Return answer = functions_.processes(device.handle, &count, infos.data());
    if (answer == nvml::kInsufficientSize && count > infos.size() && count <= kMostProcesses) {
      infos.resize(count + 16);
      continue;
    }
    if (answer != nvml::kSuccess) return {};
    std::vector<GpuProcess> processes;
    for (std::size_t i = 0; i < std::min<std::size_t>(count, infos.size()); ++i) {
      processes.push_back({static_cast<pid_t>(infos[i].pid), Bytes(infos[i].used_gpu_memory)});
    }
    return processes;
  }
  return {};
}

}  // namespace probing::observe
