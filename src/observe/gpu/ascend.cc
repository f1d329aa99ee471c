#include "observe/gpu/ascend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "observe/gpu/dcmi_abi.h"

namespace probing::observe {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::size_t kMostText = 1 << 20;

// What the function writes, or nothing when it is not there or fails.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> Ask(Function* function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != 0) return std::nullopt;
  return value;
}

std::string TextOf(const unsigned char* text, std::size_t size) {
  const auto* begin = reinterpret_cast<const char*>(text);
  return std::string(begin, strnlen(begin, size));
}

Number Megabytes(unsigned long long megabytes) {
  return megabytes > (1ULL << 40) ? Number() : Number(static_cast<std::int64_t>(megabytes << 20));
}

class Dcmi : public GpuDriver {
 public:
  explicit Dcmi(std::string library);
  ~Dcmi() override {
    if (library_ != nullptr) dlclose(library_);
  }
  Dcmi(const Dcmi&) = delete;
  Dcmi& operator=(const Dcmi&) = delete;

  bool available() const override { return !devices_.empty(); }
  std::vector<GpuLook> Look(GpuDepth depth) override;
  std::string Describe() const override;

 private:
  struct Device {
    int card, chip;
    std::string name, pci;
  };
  template <typename Function>
  void Find(Function*& function, const char* name);
  void FindDevices();
  GpuHealth HealthOf(const Device& device);
  std::string FaultOf(const Device& device);

  std::string path_, problem_, missing_;
  void* library_ = nullptr;
  dcmi::Functions functions_;
  std::vector<Device> devices_;
};

template <typename Function>
void Dcmi::Find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library_, name));
  if (function == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
}

Dcmi::Dcmi(std::string library) : path_(std::move(library)) {
  library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    problem_ = "no " + path_ + " here";
    return;
  }
  dcmi::Functions& f = functions_;
  Find(f.init, "dcmi_init");
  Find(f.card_list, "dcmi_get_card_list");
  Find(f.device_count, "dcmi_get_device_num_in_card");
  Find(f.driver_version, "dcmi_get_driver_version");
  Find(f.chip_info, "dcmi_get_device_chip_info");
  Find(f.pcie_info, "dcmi_get_device_pcie_info_v2");
  Find(f.utilization, "dcmi_get_device_utilization_rate");
  Find(f.temperature, "dcmi_get_device_temperature");
  Find(f.power, "dcmi_get_device_power_info");
  Find(f.frequency, "dcmi_get_device_frequency");
  Find(f.hbm, "dcmi_get_device_hbm_info");
  Find(f.ecc, "dcmi_get_device_ecc_info");
  Find(f.health, "dcmi_get_device_health");
  Find(f.error_codes, "dcmi_get_device_errorcode_v2");
  Find(f.processes, "dcmi_get_device_resource_info");
  if (f.init == nullptr || f.card_list == nullptr || f.device_count == nullptr) {
    problem_ = path_ + " is no DCMI that we know";
  } else if (const int started = f.init(); started != 0) {
    problem_ = path_ + " is there, dcmi_init failed with " + std::to_string(started);
  } else {
    FindDevices();
  }
}

std::string Dcmi::Describe() const {
  if (!problem_.empty()) return problem_;
  std::array<char, 64> driver{};
  const bool has_version = functions_.driver_version != nullptr &&
                           functions_.driver_version(driver.data(), driver.size() - 1) == 0;
  std::string text = path_ + (has_version ? ", driver " + std::string(driver.data()) : "") + ", " +
                     std::to_string(devices_.size()) + " NPUs";
  if (!missing_.empty()) text += "; this version does not have " + missing_;
  return text;
}

void Dcmi::FindDevices() {
  std::array<int, dcmi::kMostCards> cards{};
  int card_count = 0;
  if (functions_.card_list(&card_count, cards.data(), dcmi::kMostCards) != 0) return;
  for (int c = 0; c < std::min(card_count, dcmi::kMostCards); ++c) {
    const int card = cards[static_cast<std::size_t>(c)];
    const int chips = std::min(Ask<int>(functions_.device_count, card).value_or(0), 8);
    for (int chip = 0; chip < chips; ++chip) {
      Device device{card, chip, "", ""};
      // Cards have processors that are no NPU, too: those have no name or no memory of this kind.
      if (const auto info = Ask<dcmi::ChipInfo>(functions_.chip_info, card, chip))
        device.name = TextOf(info->name, sizeof(info->name));
      if (device.name.empty() || !Ask<dcmi::HbmInfo>(functions_.hbm, card, chip)) continue;
      if (const auto pci = Ask<dcmi::PcieInfo>(functions_.pcie_info, card, chip)) {
        std::array<char, 64> text{};
        std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci->domain),
                      pci->bus & 0xff, pci->slot & 0x1f, pci->function & 7);
        device.pci = text.data();
      }
      devices_.push_back(std::move(device));
    }
  }
}

std::vector<GpuLook> Dcmi::Look(GpuDepth depth) {
  const dcmi::Functions& f = functions_;
  std::vector<GpuLook> looks;
  for (const Device& device : devices_) {
    const int card = device.card;
    const int chip = device.chip;
    GpuLook look;
    look.device = static_cast<int>(&device - devices_.data());
    look.vendor = "ascend";
    look.name = device.name;
    look.pci = device.pci;
    look.util_percent = Ask<unsigned>(f.utilization, card, chip, dcmi::kUtilizationCore);
    look.memory_util_percent = Ask<unsigned>(f.utilization, card, chip, dcmi::kUtilizationMemory);
    if (const auto hbm = Ask<dcmi::HbmInfo>(f.hbm, card, chip)) {
      look.memory_used = Megabytes(hbm->used_mb);
      look.memory_total = Megabytes(hbm->size_mb);
    }
    look.temperature = Ask<int>(f.temperature, card, chip);
    if (const auto power = Ask<int>(f.power, card, chip)) look.power = *power / 10.0;
    look.sm_clock = Ask<unsigned>(f.frequency, card, chip, dcmi::kFrequencyCore);
    look.memory_clock = Ask<unsigned>(f.frequency, card, chip, dcmi::kFrequencyHbm);
    std::array<dcmi::ProcessMemory, dcmi::kMostProcesses> processes{};
    int count = dcmi::kMostProcesses;
    if (f.processes != nullptr && f.processes(card, chip, processes.data(), &count) == 0) {
      for (int i = 0; i < std::min(count, dcmi::kMostProcesses); ++i) {
        const dcmi::ProcessMemory& process = processes[static_cast<std::size_t>(i)];
        look.processes.push_back({process.pid, static_cast<std::int64_t>(process.bytes), {}});
      }
    }
    if (depth == GpuDepth::kHealth) look.health = HealthOf(device);
    looks.push_back(std::move(look));
  }
  return looks;
}

GpuHealth Dcmi::HealthOf(const Device& device) {
  const dcmi::Functions& f = functions_;
  GpuHealth health;
  health.sm_clock_max = Ask<unsigned>(f.frequency, device.card, device.chip, dcmi::kFrequencyCoreMax);
  if (const auto hbm = Ask<dcmi::HbmInfo>(f.hbm, device.card, device.chip))
    health.memory_temperature = hbm->temperature;
  const auto ecc = Ask<dcmi::EccInfo>(f.ecc, device.card, device.chip, dcmi::kDeviceHbm);
  if (ecc && ecc->is_enabled != 0) {
    health.ecc_corrected = ecc->corrected;
    health.ecc_uncorrected = ecc->uncorrected;
    health.ecc_corrected_total = ecc->corrected_total;
    health.ecc_uncorrected_total = ecc->uncorrected_total;
    health.retired_pages =
        std::int64_t{ecc->corrected_isolated_pages} + std::int64_t{ecc->uncorrected_isolated_pages};
  }
  health.fault = FaultOf(device);
  return health;
}

// 0 is healthy, 1 a warning, 2 important, 3 critical; the codes are those of Huawei's list of faults.
std::string Dcmi::FaultOf(const Device& device) {
  const auto health = Ask<unsigned>(functions_.health, device.card, device.chip);
  if (!health || *health == 0 || *health > 3) return "";
  constexpr std::array kWords{"", "minor alarm", "major alarm", "critical alarm"};
  std::string text = kWords[*health];
  std::array<unsigned, dcmi::kMostErrorCodes> codes{};
  int count = 0;
  if (functions_.error_codes != nullptr &&
      functions_.error_codes(device.card, device.chip, &count, codes.data(), dcmi::kMostErrorCodes) == 0) {
    for (int i = 0; i < std::min(count, 8); ++i) {
      std::array<char, 16> code{};
      std::snprintf(code.data(), code.size(), "%s0x%X", i == 0 ? ": " : ", ",
                    codes[static_cast<std::size_t>(i)]);
      text += code.data();
    }
  }
  return text;
}

// A cell of a table between bars.
std::vector<std::string_view> CellsOf(std::string_view line) {
  std::vector<std::string_view> cells;
  line = Trim(line, kSpace);
  if (!line.starts_with('|')) return cells;
  line.remove_prefix(1);
  while (!line.empty()) cells.push_back(Trim(TakePart(line, '|'), kSpace));
  return cells;
}

// "3300 / 65536" in MB.
void TakeMemory(std::string_view& text, Number& used, Number& total) {
  used = Times(observe::ParseNumber(TakePart(text, '/')), 1 << 20);
  total = Times(observe::ParseNumber(TakeWord(text)), 1 << 20);
}

std::optional<double> TakeReal(std::string_view& text) {
  double value = 0;
  return probing::ParseNumber(TakeWord(text), value) ? std::optional(value) : std::nullopt;
}

// The program takes long, so it is asked for looks with health only.
class NpuSmi : public GpuDriver {
 public:
  NpuSmi(std::string program, std::string library_problem)
      : program_(std::move(program)), problem_(std::move(library_problem)) {
    if (access(program_.c_str(), X_OK) == 0) first_ = Run();
  }
  bool available() const override { return !first_.empty(); }
  std::string Describe() const override {
    return problem_ + "; " + program_ +
           (first_.empty() ? " tells of no NPU" : " tells of " + std::to_string(first_.size()) + " NPUs");
  }
  // Looks without health have nothing.
  std::vector<GpuLook> Look(GpuDepth depth) override {
    return depth == GpuDepth::kHealth ? Run() : std::vector<GpuLook>();
  }

 private:
  std::vector<GpuLook> Run() const {
    std::FILE* output =
        popen(("'" + program_ + "' info 2>/dev/null").c_str(), "re");  // NOLINT: ours or root's
    if (output == nullptr) return {};
    std::string text(kMostText, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), output));
    pclose(output);
    return ParseNpuSmi(text);
  }
  const std::string program_, problem_;
  std::vector<GpuLook> first_;
};

}  // namespace

// Two lines for each chip, then the processes:
// | 0     910B3               | OK            | 93.6        40                0    / 0             |
// | 0                         | 0000:C1:00.0  | 7           0    / 0          3300 / 65536         |
// | NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
// | 0       0                 | 12345         | python                   | 1234                    |
std::vector<GpuLook> ParseNpuSmi(std::string_view text) {
  std::vector<GpuLook> looks;
  std::vector<std::pair<std::int64_t, std::int64_t>> ids;  // NPU and chip of each
  std::int64_t npu = -1;
  bool in_processes = false;
  GpuLook next;
  while (!text.empty()) {
    const std::vector<std::string_view> cells = CellsOf(TakeLine(text));
    if (cells.size() < 3) continue;
    if (cells.size() >= 4 && cells[1] == "Process id") in_processes = true;
    std::string_view first = cells[0];
    const Number id = observe::ParseNumber(TakeWord(first));
    if (!id) continue;
    if (in_processes) {
      const Number chip = observe::ParseNumber(TakeWord(first));
      const Number pid = observe::ParseNumber(cells[1]);
      const Number memory = cells.size() > 3 ? observe::ParseNumber(cells[3]) : Number();
      for (std::size_t i = 0; i < looks.size(); ++i) {
        if (pid && ids[i] == std::pair(*id, chip.value_or(0)))
          looks[i].processes.push_back({static_cast<pid_t>(*pid), Times(memory, 1 << 20), {}});
      }
    } else if (const std::string_view name = TakeWord(first);
               !name.empty() && cells[1].find(':') == cells[1].npos) {
      npu = *id;
      next = GpuLook();
      next.vendor = "ascend";
      next.name = name;
      std::string_view values = cells[2];
      next.power = TakeReal(values);
      next.temperature = TakeReal(values);
      next.health.emplace();
      if (cells[1] != "OK" && !cells[1].empty()) next.health->fault = LowerCase(cells[1]);
    } else if (npu >= 0 && cells[1].find(':') != cells[1].npos) {
      next.device = static_cast<int>(looks.size());
      next.pci = LowerCase(cells[1]);
      std::string_view values = cells[2];
      next.util_percent = TakeReal(values);
      TakeMemory(values, next.memory_used, next.memory_total);  // of the host's kind; HBM where there is some
      Number used, total;
      TakeMemory(values, used, total);
      if (total.value_or(0) > 0) {
        next.memory_used = used;
        next.memory_total = total;
      }
      looks.push_back(next);
      ids.emplace_back(npu, *id);
    }
  }
  return looks;
}

std::unique_ptr<GpuDriver> OpenAscend(const GpuOptions& options) {
  auto library = std::make_unique<Dcmi>(NameOf(options.dcmi_library, "PROBING_DCMI", "libdcmi.so"));
  if (library->available()) return library;
  return std::make_unique<NpuSmi>(NameOf(options.npu_smi, "PROBING_NPU_SMI", "/usr/local/bin/npu-smi"),
                                  library->Describe());
}

}  // namespace probing::observe
