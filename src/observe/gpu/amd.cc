#include "observe/gpu/amd.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "observe/gpu/amdsmi.h"

namespace probing::observe {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kMostBadPages = 100'000;

std::string ReadText(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? std::string(Trim(*text, kSpace)) : "";
}

Number ReadNumber(const std::string& path) { return observe::ParseNumber(ReadText(path)); }

std::optional<double> Scaled(Number number, double unit) {
  return number ? std::optional<double>(static_cast<double>(*number) / unit) : std::nullopt;
}

// "16.0 GT/s PCIe" as the generation of PCI Express.
Number Generation(std::string_view speed) {
  constexpr std::array<std::pair<std::string_view, int>, 6> kSpeeds{
      {{"2.5", 1}, {"5.0", 2}, {"8.0", 3}, {"16.0", 4}, {"32.0", 5}, {"64.0", 6}}};
  const std::string_view number = TakeWord(speed);
  for (const auto& [text, generation] : kSpeeds) {
    if (number == text) return generation;
  }
  return std::nullopt;
}

struct Device {
  std::string folder;  // …/card0/device
  std::string hwmon;   // its folder; "" without one
  std::string pci, name, uuid;
  std::string kfd_id;  // by which the compute driver calls it; "" when it does not know it
};

std::string ValueOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    if (TakeWord(line) == key) return std::string(Trim(line, kSpace));
  }
  return "";
}

// "PCI_SLOT_NAME=0000:c1:00.0" among the lines of uevent.
std::string PciOf(const std::string& folder) {
  const std::string text = ReadText(folder + "/uevent");
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeLine(rest);
    constexpr std::string_view kKey = "PCI_SLOT_NAME=";
    if (line.starts_with(kKey)) return std::string(line.substr(kKey.size()));
  }
  return "";
}

// Counts of all blocks of the chip: "ue: 0\nce: 3\n" each.
void AddEcc(const std::string& folder, GpuHealth& health) {
  const Result<std::vector<std::string>> names = ListDirectory(folder + "/ras");
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.ends_with("_err_count")) continue;
    const std::string text = ReadText(folder + "/ras/" + name);
    const Number uncorrected = FindNumber(text, "ue:");
    const Number corrected = FindNumber(text, "ce:");
    if (uncorrected) health.ecc_uncorrected = Plus(health.ecc_uncorrected.value_or(0), uncorrected);
    if (corrected) health.ecc_corrected = Plus(health.ecc_corrected.value_or(0), corrected);
  }
  // Lines "0xADDRESS : 0xSIZE : R" (retired), P (to be retired), F (could not be).
  const Result<std::string> pages = ReadFile(folder + "/ras/gpu_vram_bad_pages");
  if (!pages.ok()) return;
  std::int64_t retired = 0;
  bool pending = false;
  std::size_t lines = 0;
  for (std::string_view rest = *pages; !rest.empty() && lines < kMostBadPages; ++lines) {
    const std::string_view line = Trim(TakeLine(rest), kSpace);
    if (line.ends_with(": R")) ++retired;
    if (line.ends_with(": P") || line.ends_with(": F")) pending = true;
  }
  health.retired_pages = retired;
  health.retire_pending = pending;
}

void AddPcie(const std::string& folder, GpuHealth& health) {
  health.pcie_width = ReadNumber(folder + "/current_link_width");
  health.pcie_width_max = ReadNumber(folder + "/max_link_width");
  health.pcie_generation = Generation(ReadText(folder + "/current_link_speed"));
  health.pcie_generation_max = Generation(ReadText(folder + "/max_link_speed"));
  health.pcie_replays = ReadNumber(folder + "/pcie_replay_count");
}

// The number of the sensor with that label, as "temp" + "junction".
std::string SensorOf(const std::string& hwmon, const std::string& kind, std::string_view label) {
  for (int i = 1; i <= 4; ++i) {
    const std::string sensor = hwmon + "/" + kind + std::to_string(i);
    if (ReadText(sensor + "_label") == label) return sensor;
  }
  return "";
}

class Amd : public GpuDriver {
 public:
  explicit Amd(const GpuOptions& options)
      : sys_(NameOf(options.sys_root, "PROBING_SYSFS", "/sys")),
        library_(NameOf(options.amdsmi_library, "PROBING_AMDSMI", "libamd_smi.so")) {
    FindDevices();
    if (!devices_.empty()) smi_ = std::make_unique<AmdSmi>(library_);
  }

  bool available() const override { return !devices_.empty(); }

  std::string Describe() const override {
    if (devices_.empty()) return "no GPU of amdgpu in " + sys_ + "/class/drm";
    return std::to_string(devices_.size()) + " GPUs in " + sys_ + "/class/drm; " + smi_->description();
  }

  std::vector<GpuLook> Look(GpuDepth depth) override {
    std::vector<GpuLook> looks;
    const auto users = Users();
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const Device& device = devices_[i];
      GpuLook look = UsageOf(device);
      look.device = static_cast<int>(i);
      if (const auto found = users.find(device.kfd_id); !device.kfd_id.empty() && found != users.end())
        look.processes = found->second;
      if (depth == GpuDepth::kHealth) look.health = HealthOf(device);
      looks.push_back(std::move(look));
    }
    return looks;
  }

 private:
  void FindDevices();
  void FindKfdId(Device& device);
  GpuLook UsageOf(const Device& device) const;
  GpuHealth HealthOf(const Device& device);
  std::map<std::string, std::vector<GpuProcess>> Users() const;

  const std::string sys_, library_;
  std::vector<Device> devices_;
  std::unique_ptr<AmdSmi> smi_;
};

void Amd::FindDevices() {
  Result<std::vector<std::string>> names = ListDirectory(sys_ + "/class/drm");
  if (!names.ok()) return;
  std::vector<std::pair<int, std::string>> cards;
  for (const std::string& name : *names) {
    int number = 0;  // "card0", not "card0-DP-1" or "renderD128"
    if (name.starts_with("card") && probing::ParseNumber(std::string_view(name).substr(4), number))
      cards.emplace_back(number, sys_ + "/class/drm/" + name + "/device");
  }
  std::ranges::sort(cards);
  for (const auto& [number, folder] : cards) {
    if (ReadText(folder + "/vendor") != "0x1002" || !ReadNumber(folder + "/mem_info_vram_total")) continue;
    Device device{.folder = folder,
                  .hwmon = "",
                  .pci = PciOf(folder),
                  .name = ReadText(folder + "/product_name"),
                  .uuid = ReadText(folder + "/unique_id"),
                  .kfd_id = ""};
    if (device.name.empty()) device.name = "AMD GPU " + ReadText(folder + "/device");
    const Result<std::vector<std::string>> monitors = ListDirectory(folder + "/hwmon");
    if (monitors.ok() && !monitors->empty()) device.hwmon = folder + "/hwmon/" + monitors->front();
    FindKfdId(device);
    devices_.push_back(std::move(device));
  }
}

// The compute driver (KFD) numbers GPUs in a way of its own; location_id is bus, device and function.
void Amd::FindKfdId(Device& device) {
  const std::string nodes = sys_ + "/class/kfd/kfd/topology/nodes";
  const Result<std::vector<std::string>> names = ListDirectory(nodes);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string properties = ReadText(nodes + "/" + name + "/properties");
    const Number location = observe::ParseNumber(ValueOf(properties, "location_id"));
    const Number domain = observe::ParseNumber(ValueOf(properties, "domain"));
    if (!location || *location == 0) continue;
    std::array<char, 48> pci{};
    std::snprintf(pci.data(), pci.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(domain.value_or(0)),
                  static_cast<unsigned>(*location >> 8 & 0xff), static_cast<unsigned>(*location >> 3 & 0x1f),
                  static_cast<unsigned>(*location & 7));
    if (device.pci == pci.data()) device.kfd_id = ReadText(nodes + "/" + name + "/gpu_id");
  }
}

// Memory of processes by KFD's number of the GPU: /sys/class/kfd/kfd/proc/PID/vram_GPUID.
std::map<std::string, std::vector<GpuProcess>> Amd::Users() const {
  std::map<std::string, std::vector<GpuProcess>> users;
  const std::string folder = sys_ + "/class/kfd/kfd/proc";
  const Result<std::vector<std::string>> pids = ListDirectory(folder);
  if (!pids.ok()) return users;
  for (const std::string& text : *pids) {
    pid_t pid = 0;
    if (!probing::ParseNumber(std::string_view(text), pid)) continue;
    for (const Device& device : devices_) {
      if (device.kfd_id.empty()) continue;
      const Number bytes = ReadNumber(folder + "/" + text + "/vram_" + device.kfd_id);
      if (bytes.value_or(0) > 0) users[device.kfd_id].push_back({pid, bytes, {}});
    }
  }
  return users;
}

GpuLook Amd::UsageOf(const Device& device) const {
  GpuLook look;
  look.vendor = "amd";
  look.name = device.name;
  look.uuid = device.uuid;
  look.pci = device.pci;
  look.util_percent = Scaled(ReadNumber(device.folder + "/gpu_busy_percent"), 1);
  look.memory_util_percent = Scaled(ReadNumber(device.folder + "/mem_busy_percent"), 1);
  look.memory_used = ReadNumber(device.folder + "/mem_info_vram_used");
  look.memory_total = ReadNumber(device.folder + "/mem_info_vram_total");
  if (device.hwmon.empty()) return look;
  const std::string& hwmon = device.hwmon;
  std::string core = SensorOf(hwmon, "temp", "junction");
  if (core.empty()) core = hwmon + "/temp1";
  look.temperature = Scaled(ReadNumber(core + "_input"), 1e3);
  Number microwatts = ReadNumber(hwmon + "/power1_average");
  if (!microwatts) microwatts = ReadNumber(hwmon + "/power1_input");
  look.power = Scaled(microwatts, 1e6);
  look.power_limit = Scaled(ReadNumber(hwmon + "/power1_cap"), 1e6);
  const auto megahertz = [&](std::string_view label) {
    const std::string sensor = SensorOf(hwmon, "freq", label);
    const Number hertz = sensor.empty() ? Number() : ReadNumber(sensor + "_input");
    return hertz ? Number(*hertz / 1'000'000) : Number();
  };
  look.sm_clock = megahertz("sclk");
  look.memory_clock = megahertz("mclk");
  return look;
}

GpuHealth Amd::HealthOf(const Device& device) {
  GpuHealth health;
  AddEcc(device.folder, health);
  AddPcie(device.folder, health);
  if (!device.hwmon.empty()) {
    const std::string memory = SensorOf(device.hwmon, "temp", "mem");
    if (!memory.empty()) health.memory_temperature = Scaled(ReadNumber(memory + "_input"), 1e3);
    std::string core = SensorOf(device.hwmon, "temp", "junction");
    if (core.empty()) core = device.hwmon + "/temp1";
    health.temperature_limit = Scaled(ReadNumber(core + "_crit"), 1e3);
  }
  const auto violations = smi_->ViolationsOf(device.pci);
  if (!violations) return health;
  struct Reason {
    std::uint8_t active;
    const char* word;
    bool is_throttling;
  };
  const std::array reasons{Reason{violations->prochot, "hw_thermal", true},
                           Reason{violations->package_power, "sw_power_cap", false},
                           Reason{violations->socket_thermal, "sw_thermal", true},
                           Reason{violations->vr_thermal, "vr_thermal", true},
                           Reason{violations->memory_thermal, "memory_thermal", true},
                           Reason{violations->below_host_limit, "below_host_limit", false}};
  bool is_known = false;
  bool is_throttled = false;
  for (const Reason& reason : reasons) {
    if (reason.active > 1) continue;  // 255: not available
    is_known = true;
    if (reason.active == 0) continue;
    health.throttle_reasons += (health.throttle_reasons.empty() ? "" : ",") + std::string(reason.word);
    is_throttled = is_throttled || reason.is_throttling;
  }
  if (!is_known) return health;
  health.is_throttled = is_throttled;
  if (health.throttle_reasons.empty()) health.throttle_reasons = "none";
  return health;
}

}  // namespace

std::unique_ptr<GpuDriver> OpenAmd(const GpuOptions& options) { return std::make_unique<Amd>(options); }

}  // namespace probing::observe
