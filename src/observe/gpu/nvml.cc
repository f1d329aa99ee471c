#include "observe/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "observe/gpu/nvml_abi.h"

namespace probing::observe {
namespace {

constexpr unsigned kMostDevices = 256;
constexpr unsigned kMostProcesses = 4096;
constexpr int kMostEvents = 64;  // of one look

// Those of nvmlClocksEventReasons. The first four are what people set, or nothing to do.
struct Reason {
  unsigned long long bit;
  const char* word;
  bool is_throttling;
};
constexpr std::array kReasons{
    Reason{0x01, "gpu_idle", false},       Reason{0x02, "applications_clocks", false},
    Reason{0x04, "sw_power_cap", false},   Reason{0x08, "hw_slowdown", true},
    Reason{0x10, "sync_boost", false},     Reason{0x20, "sw_thermal", true},
    Reason{0x40, "hw_thermal", true},      Reason{0x80, "hw_power_brake", true},
    Reason{0x100, "display_clocks", false}};

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

std::optional<std::int64_t> Whole(unsigned long long number) {
  if (number > static_cast<unsigned long long>(INT64_MAX)) return std::nullopt;  // also kNotAvailable
  return static_cast<std::int64_t>(number);
}
std::optional<std::int64_t> Whole(std::optional<nvml::Counter> number) {
  return number ? Whole(*number) : std::nullopt;
}

std::optional<std::int64_t> WholeOf(const nvml::Field& field) {
  if (field.result != nvml::kSuccess) return std::nullopt;
  switch (field.type) {
    case nvml::kUint32:
      return field.value.uint32;
    case nvml::kUlong:
    case nvml::kUint64:
      return Whole(field.value.uint64);
    case nvml::kInt64:
      return field.value.int64 < 0 ? std::nullopt : std::optional<std::int64_t>(field.value.int64);
    case nvml::kInt32:
      return field.value.int32 < 0 ? std::nullopt : std::optional<std::int64_t>(field.value.int32);
    case nvml::kUint16:
      return field.value.uint16;
    default:
      return std::nullopt;
  }
}

class Nvml : public GpuDriver {
 public:
  explicit Nvml(std::string library);
  ~Nvml() override;
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool available() const override { return !devices_.empty(); }
  std::vector<GpuLook> Look(GpuDepth depth) override;
  std::string Describe() const override;

 private:
  struct Device {
    int index;
    nvml::Device handle;
    std::string name, uuid, pci;
    unsigned long long last_sample_us = 0;
    Number xid;
  };
  void FindFunctions();
  template <typename Function>
  void Find(Function*& function, const char* name, const char* older = nullptr);
  void FindDevices();
  void RegisterEvents();
  void TakeEvents();
  std::vector<GpuProcess> ProcessesOf(const Device& device);
  void AddUtilization(Device& device, std::vector<GpuProcess>& processes);
  GpuHealth HealthOf(Device& device);
  void AddMemoryErrors(nvml::Device device, GpuHealth& health);
  void AddLinks(nvml::Device device, GpuHealth& health);
  void AddFields(nvml::Device device, GpuHealth& health);

  std::string path_;
  std::string problem_;  // why there is nothing
  std::string missing_;  // functions that this library does not have
  void* library_ = nullptr;
  bool initialized_ = false;
  nvml::Functions functions_;
  nvml::EventSet events_ = nullptr;
  std::vector<Device> devices_;
};

template <typename Function>
void Nvml::Find(Function*& function, const char* name, const char* older) {
  function = reinterpret_cast<Function*>(dlsym(library_, name));
  if (function == nullptr && older != nullptr) {
    function = reinterpret_cast<Function*>(dlsym(library_, older));
  }
  if (function == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
}

void Nvml::FindFunctions() {
  nvml::Functions& f = functions_;
  Find(f.init, "nvmlInit_v2");
  Find(f.shutdown, "nvmlShutdown");
  Find(f.driver_version, "nvmlSystemGetDriverVersion");
  Find(f.device_count, "nvmlDeviceGetCount_v2");
  Find(f.device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  Find(f.name, "nvmlDeviceGetName");
  Find(f.uuid, "nvmlDeviceGetUUID");
  Find(f.pci, "nvmlDeviceGetPciInfo_v3");
  Find(f.utilization, "nvmlDeviceGetUtilizationRates");
  Find(f.memory, "nvmlDeviceGetMemoryInfo");
  // The same struct; drivers 450 to 510 have only the older one.
  Find(f.processes, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2");
  Find(f.process_utilization, "nvmlDeviceGetProcessUtilization");
  Find(f.temperature, "nvmlDeviceGetTemperature");
  Find(f.threshold, "nvmlDeviceGetTemperatureThreshold");
  Find(f.power, "nvmlDeviceGetPowerUsage");
  Find(f.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  Find(f.clock, "nvmlDeviceGetClockInfo");
  Find(f.clock_max, "nvmlDeviceGetMaxClockInfo");
  // Named so since drivers of CUDA 12.2.
  Find(f.throttle_reasons, "nvmlDeviceGetCurrentClocksEventReasons",
       "nvmlDeviceGetCurrentClocksThrottleReasons");
  Find(f.ecc, "nvmlDeviceGetTotalEccErrors");
  Find(f.retired_pages, "nvmlDeviceGetRetiredPages");
  Find(f.retire_pending, "nvmlDeviceGetRetiredPagesPendingStatus");
  Find(f.remapped_rows, "nvmlDeviceGetRemappedRows");
  Find(f.pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
  Find(f.pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
  Find(f.pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
  Find(f.pcie_generation_max, "nvmlDeviceGetMaxPcieLinkGeneration");
  Find(f.pcie_replays, "nvmlDeviceGetPcieReplayCounter");
  Find(f.link_state, "nvmlDeviceGetNvLinkState");
  Find(f.link_errors, "nvmlDeviceGetNvLinkErrorCounter");
  Find(f.fields, "nvmlDeviceGetFieldValues");
  Find(f.event_set_create, "nvmlEventSetCreate");
  Find(f.event_set_free, "nvmlEventSetFree");
  Find(f.register_events, "nvmlDeviceRegisterEvents");
  Find(f.wait_event, "nvmlEventSetWait_v2");
}

Nvml::Nvml(std::string library) : path_(std::move(library)) {
  library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = "no " + path_ + " here";
    return;
  }
  FindFunctions();
  if (functions_.init == nullptr || functions_.device_count == nullptr ||
      functions_.device_by_index == nullptr) {
    problem_ = path_ + " is no NVML that we know";
    return;
  }
  const nvml::Return started = functions_.init();
  initialized_ = started == nvml::kSuccess;
  if (!initialized_) {
    problem_ = path_ + " is there, nvmlInit_v2 failed with " + std::to_string(started) +
               (started == 9   ? ": the driver is not loaded"
                : started == 4 ? ": no permission"
                               : "");
    return;
  }
  FindDevices();
  RegisterEvents();
}

Nvml::~Nvml() {
  if (events_ != nullptr && functions_.event_set_free != nullptr) functions_.event_set_free(events_);
  if (initialized_ && functions_.shutdown != nullptr) functions_.shutdown();
  if (library_ != nullptr) dlclose(library_);
}

std::string Nvml::Describe() const {
  if (!problem_.empty()) return problem_;
  std::array<char, nvml::kTextBytes> driver{};
  const bool has_version = functions_.driver_version != nullptr &&
                           functions_.driver_version(driver.data(), driver.size()) == nvml::kSuccess;
  std::string text = path_ + (has_version ? ", driver " + std::string(driver.data()) : "") + ", " +
                     std::to_string(devices_.size()) + " GPUs";
  if (!missing_.empty()) text += "; this version does not have " + missing_;
  return text;
}

void Nvml::FindDevices() {
  const unsigned count = std::min(Ask<unsigned>(functions_.device_count).value_or(0), kMostDevices);
  for (unsigned i = 0; i < count; ++i) {
    const auto handle = Ask<nvml::Device>(functions_.device_by_index, i);
    if (!handle.has_value()) continue;  // no permission, or lost
    Device device{static_cast<int>(i),
                  *handle,
                  AskText(functions_.name, *handle),
                  AskText(functions_.uuid, *handle),
                  "",
                  0,
                  {}};
    if (const auto pci = Ask<nvml::PciInfo>(functions_.pci, *handle)) {
      device.pci.assign(pci->bus_id, strnlen(pci->bus_id, sizeof(pci->bus_id)));
    }
    devices_.push_back(std::move(device));
  }
}

// The driver keeps events for us from now on; nothing waits for them.
void Nvml::RegisterEvents() {
  const nvml::Functions& f = functions_;
  if (devices_.empty() || f.event_set_create == nullptr || f.event_set_free == nullptr ||
      f.register_events == nullptr || f.wait_event == nullptr)
    return;
  if (f.event_set_create(&events_) != nvml::kSuccess) {
    events_ = nullptr;
    return;
  }
  for (const Device& device : devices_) f.register_events(device.handle, nvml::kEventXid, events_);
}

void Nvml::TakeEvents() {
  if (events_ == nullptr) return;
  for (int i = 0; i < kMostEvents; ++i) {
    nvml::EventData event{};
    if (functions_.wait_event(events_, &event, 0) != nvml::kSuccess) return;
    for (Device& device : devices_) {
      if (device.handle == event.device && event.type == nvml::kEventXid) device.xid = Whole(event.data);
    }
  }
}

std::vector<GpuLook> Nvml::Look(GpuDepth depth) {
  std::vector<GpuLook> looks;
  if (depth == GpuDepth::kHealth) TakeEvents();
  for (Device& device : devices_) {
    GpuLook look;
    look.device = device.index;
    look.vendor = "nvidia";
    look.name = device.name;
    look.uuid = device.uuid;
    look.pci = device.pci;
    // A lost GPU answers nothing from now on, so the first call decides.
    nvml::Memory memory{};
    const nvml::Return answer =
        functions_.memory != nullptr ? functions_.memory(device.handle, &memory) : nvml::kSuccess;
    if (answer == nvml::kGpuIsLost || answer == nvml::kResetRequired) {
      if (depth == GpuDepth::kUsage) continue;
      look.is_lost = true;
      GpuHealth& health = look.health.emplace();
      health.xid = std::exchange(device.xid, std::nullopt);
      health.fault = answer == nvml::kGpuIsLost ? "the GPU is lost: the driver cannot reach it any more"
                                                : "the GPU has to be reset before it can be used again";
      looks.push_back(std::move(look));
      continue;
    }
    if (functions_.memory != nullptr && answer == nvml::kSuccess) {
      look.memory_used = Whole(memory.used);
      look.memory_total = Whole(memory.total);
    }
    if (const auto utilization = Ask<nvml::Utilization>(functions_.utilization, device.handle)) {
      look.util_percent = utilization->gpu;
      look.memory_util_percent = utilization->memory;
    }
    look.temperature = Ask<unsigned>(functions_.temperature, device.handle, nvml::kTemperatureGpu);
    if (const auto milliwatts = Ask<unsigned>(functions_.power, device.handle))
      look.power = *milliwatts / 1e3;
    if (const auto milliwatts = Ask<unsigned>(functions_.power_limit, device.handle))
      look.power_limit = *milliwatts / 1e3;
    look.sm_clock = Ask<unsigned>(functions_.clock, device.handle, nvml::kClockSm);
    look.memory_clock = Ask<unsigned>(functions_.clock, device.handle, nvml::kClockMemory);
    look.processes = ProcessesOf(device);
    if (!look.processes.empty()) AddUtilization(device, look.processes);
    if (depth == GpuDepth::kHealth) look.health = HealthOf(device);
    looks.push_back(std::move(look));
  }
  return looks;
}

std::vector<GpuProcess> Nvml::ProcessesOf(const Device& device) {
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
      processes.push_back({static_cast<pid_t>(infos[i].pid), Whole(infos[i].used_gpu_memory), {}});
    }
    return processes;
  }
  return {};
}

// The driver has several samples of each process since the last look: their mean.
void Nvml::AddUtilization(Device& device, std::vector<GpuProcess>& processes) {
  if (functions_.process_utilization == nullptr) return;
  unsigned count = 0;
  const nvml::Return answer =
      functions_.process_utilization(device.handle, nullptr, &count, device.last_sample_us);
  if (answer != nvml::kInsufficientSize || count == 0 || count > kMostProcesses) return;
  std::vector<nvml::ProcessUtilization> samples(count + 16);
  count = static_cast<unsigned>(samples.size());
  if (functions_.process_utilization(device.handle, samples.data(), &count, device.last_sample_us) !=
      nvml::kSuccess)
    return;
  samples.resize(std::min<std::size_t>(count, samples.size()));
  for (GpuProcess& process : processes) {
    double sum = 0;
    int found = 0;
    for (const nvml::ProcessUtilization& sample : samples) {
      if (static_cast<pid_t>(sample.pid) != process.pid || sample.sm > 100) continue;
      sum += sample.sm;
      ++found;
    }
    if (found > 0) process.util_percent = sum / found;
  }
  for (const nvml::ProcessUtilization& sample : samples)
    device.last_sample_us = std::max(device.last_sample_us, sample.time_us);
}

GpuHealth Nvml::HealthOf(Device& device) {
  GpuHealth health;
  if (const auto bits = Ask<nvml::Counter>(functions_.throttle_reasons, device.handle)) {
    health.is_throttled = false;
    for (const Reason& reason : kReasons) {
      if ((*bits & reason.bit) == 0) continue;
      health.throttle_reasons += (health.throttle_reasons.empty() ? "" : ",") + std::string(reason.word);
      if (reason.is_throttling) health.is_throttled = true;
    }
    if (health.throttle_reasons.empty()) health.throttle_reasons = "none";
  }
  health.sm_clock_max = Ask<unsigned>(functions_.clock_max, device.handle, nvml::kClockSm);
  health.temperature_limit = Ask<unsigned>(functions_.threshold, device.handle, nvml::kThresholdSlowdown);
  AddMemoryErrors(device.handle, health);
  health.pcie_width = Ask<unsigned>(functions_.pcie_width, device.handle);
  health.pcie_width_max = Ask<unsigned>(functions_.pcie_width_max, device.handle);
  health.pcie_generation = Ask<unsigned>(functions_.pcie_generation, device.handle);
  health.pcie_generation_max = Ask<unsigned>(functions_.pcie_generation_max, device.handle);
  health.pcie_replays = Ask<unsigned>(functions_.pcie_replays, device.handle);
  AddLinks(device.handle, health);
  AddFields(device.handle, health);
  health.xid = std::exchange(device.xid, std::nullopt);
  return health;
}

void Nvml::AddMemoryErrors(nvml::Device device, GpuHealth& health) {
  const auto count = [&](int error, int since) {
    return Whole(Ask<nvml::Counter>(functions_.ecc, device, error, since));
  };
  health.ecc_corrected = count(nvml::kEccCorrected, nvml::kEccVolatile);
  health.ecc_uncorrected = count(nvml::kEccUncorrected, nvml::kEccVolatile);
  health.ecc_corrected_total = count(nvml::kEccCorrected, nvml::kEccAggregate);
  health.ecc_uncorrected_total = count(nvml::kEccUncorrected, nvml::kEccAggregate);
  for (int cause = 0; functions_.retired_pages != nullptr && cause < nvml::kRetirementCauses; ++cause) {
    unsigned pages = 0;  // how many there are is told when there is room for none
    const nvml::Return answer = functions_.retired_pages(device, cause, &pages, nullptr);
    if (answer == nvml::kSuccess || answer == nvml::kInsufficientSize)
      health.retired_pages = health.retired_pages.value_or(0) + pages;
  }
  if (const auto pending = Ask<int>(functions_.retire_pending, device)) health.retire_pending = *pending != 0;
  std::array<unsigned, 4> rows{};
  if (functions_.remapped_rows != nullptr &&
      functions_.remapped_rows(device, rows.data(), &rows[1], &rows[2], &rows[3]) == nvml::kSuccess) {
    health.remapped_rows_corrected = rows[0];
    health.remapped_rows_uncorrected = rows[1];
    health.remap_pending = rows[2] != 0;
    health.remap_failed = rows[3] != 0;
  }
}

void Nvml::AddLinks(nvml::Device device, GpuHealth& health) {
  for (unsigned link = 0; link < nvml::kMaxLinks; ++link) {
    const auto state = Ask<int>(functions_.link_state, device, link);
    if (!state.has_value()) break;  // links are numbered from 0 without gaps
    health.links = health.links.value_or(0) + 1;
    health.links_active = health.links_active.value_or(0) + (*state != 0 ? 1 : 0);
    for (int kind = 0; *state != 0 && kind < nvml::kLinkErrorKinds; ++kind) {
      const Number errors = Whole(Ask<nvml::Counter>(functions_.link_errors, device, link, kind));
      if (errors.has_value()) health.link_errors = Plus(health.link_errors.value_or(0), errors);
    }
  }
}

void Nvml::AddFields(nvml::Device device, GpuHealth& health) {
  if (functions_.fields == nullptr) return;
  std::array<nvml::Field, 5> fields{};
  fields[0].id = nvml::kFieldMemoryTemperature;
  fields[1].id = nvml::kFieldLinkSentKib;
  fields[2].id = nvml::kFieldLinkReceivedKib;
  fields[1].scope = fields[2].scope = nvml::kAllLinks;
  fields[3].id = nvml::kFieldPcieSent;
  fields[4].id = nvml::kFieldPcieReceived;
  for (nvml::Field& field : fields) field.result = 3;  // an older library leaves those it does not know alone
  if (functions_.fields(device, static_cast<int>(fields.size()), fields.data()) != nvml::kSuccess) return;
  health.memory_temperature = WholeOf(fields[0]);
  if (health.links_active.value_or(0) > 0) {
    health.link_sent_bytes = Times(WholeOf(fields[1]), 1024);
    health.link_received_bytes = Times(WholeOf(fields[2]), 1024);
  }
  health.pcie_sent_bytes = WholeOf(fields[3]);
  health.pcie_received_bytes = WholeOf(fields[4]);
}

}  // namespace

std::unique_ptr<GpuDriver> OpenNvml(const GpuOptions& options) {
  return std::make_unique<Nvml>(NameOf(options.nvml_library, "PROBING_NVML", "libnvidia-ml.so.1"));
}

}  // namespace probing::observe
