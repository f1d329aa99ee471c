#include "observe/gpu/gpus.h"

#include <array>
#include <cstdlib>

#include "observe/gpu/amd.h"
#include "observe/gpu/ascend.h"
#include "observe/gpu/background_sampler.h"
#include "observe/gpu/nvml.h"

namespace probing::observe {
namespace {

struct Vendor {
  const char* name;
  std::unique_ptr<GpuDriver> (*open)(const GpuOptions&);
};
constexpr std::array kVendors{Vendor{"NVIDIA", &OpenNvml}, Vendor{"AMD", &OpenAmd},
                              Vendor{"Ascend", &OpenAscend}};

}  // namespace

std::string NameOf(const std::string& given, const char* variable, const char* usual) {
  if (!given.empty()) return given;
  const char* named = std::getenv(variable);
  return named != nullptr && *named != '\0' ? named : usual;
}

std::unique_ptr<Gpus> Gpus::Load(const GpuOptions& options) {
  auto gpus = std::make_unique<Gpus>();
  for (const Vendor& vendor : kVendors) {
    std::unique_ptr<GpuDriver> driver = vendor.open(options);
    if (driver->available()) gpus->drivers_.push_back(std::move(driver));
  }
  return gpus;
}

std::vector<GpuLook> Gpus::Look(GpuDepth depth) {
  std::vector<GpuLook> looks;
  for (const auto& driver : drivers_) {
    std::vector<GpuLook> its = driver->Look(depth);
    looks.insert(looks.end(), std::make_move_iterator(its.begin()), std::make_move_iterator(its.end()));
  }
  return looks;
}

std::vector<GpuSupport> ExamineGpus(const GpuOptions& options, std::int64_t within_ms) {
  std::vector<GpuSupport> found;
  const Deadline deadline = Deadline::AfterMs(within_ms);
  for (const Vendor& vendor : kVendors) {
    BackgroundSampler<std::string> asked(
        [vendor, options] { return [vendor, options] { return vendor.open(options)->Describe(); }; });
    std::optional<std::string> text = asked.TakeLast().look;
    while (!text && !deadline.passed()) {
      SleepUs(500);
      text = asked.TakeLast().look;
    }
    found.push_back({vendor.name, text.value_or("its driver does not answer")});
  }
  return found;
}

}  // namespace probing::observe
