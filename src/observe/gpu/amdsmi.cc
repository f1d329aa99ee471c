#include "observe/gpu/amdsmi.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace probing::observe {
namespace {

constexpr std::uint32_t kMostHandles = 256;

template <typename Function>
bool Find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

// amdsmi_bdf_t: function 3 bits, device 5, bus 8, domain 48.
std::string PciName(std::uint64_t bdf) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04llx:%02x:%02x.%x", static_cast<unsigned long long>(bdf >> 16),
                static_cast<unsigned>(bdf >> 8 & 0xff), static_cast<unsigned>(bdf >> 3 & 0x1f),
                static_cast<unsigned>(bdf & 7));
  return text.data();
}

}  // namespace

AmdSmi::AmdSmi(const std::string& library) {
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    description_ = "no " + library + " here: what throttles a GPU is not known";
    return;
  }
  int (*init)(std::uint64_t) = nullptr;
  if (!Find(library_, init, "amdsmi_init")) {
    description_ = library + " is no amdsmi that we know";
    return;
  }
  const int started = init(amdsmi::kInitGpus);
  initialized_ = started == 0;
  if (!initialized_) {
    description_ = library + " is there, amdsmi_init failed with " + std::to_string(started);
    return;
  }
  description_ = library;
  int (*version)(amdsmi::Version*) = nullptr;
  amdsmi::Version is{};
  if (Find(library_, version, "amdsmi_get_lib_version") && version(&is) == 0)
    description_ +=
        " " + std::to_string(is.major) + "." + std::to_string(is.minor) + "." + std::to_string(is.release);
  if (!Find(library_, violations_, "amdsmi_get_violation_status"))
    description_ += "; this version does not have amdsmi_get_violation_status";
  FindDevices();
}

AmdSmi::~AmdSmi() {
  int (*shut_down)() = nullptr;
  if (initialized_ && Find(library_, shut_down, "amdsmi_shut_down")) shut_down();
  if (library_ != nullptr) dlclose(library_);
}

void AmdSmi::FindDevices() {
  int (*sockets_of)(std::uint32_t*, void**) = nullptr;
  int (*devices_of)(void*, std::uint32_t*, void**) = nullptr;
  int (*pci_of)(void*, std::uint64_t*) = nullptr;
  if (!Find(library_, sockets_of, "amdsmi_get_socket_handles") ||
      !Find(library_, devices_of, "amdsmi_get_processor_handles") ||
      !Find(library_, pci_of, "amdsmi_get_gpu_device_bdf"))
    return;
  std::vector<void*> sockets(kMostHandles);
  std::uint32_t socket_count = kMostHandles;
  if (sockets_of(&socket_count, sockets.data()) != 0) return;
  for (std::uint32_t s = 0; s < std::min(socket_count, kMostHandles); ++s) {
    std::vector<void*> devices(kMostHandles);
    std::uint32_t count = kMostHandles;
    if (devices_of(sockets[s], &count, devices.data()) != 0) continue;
    for (std::uint32_t d = 0; d < std::min(count, kMostHandles); ++d) {
      std::uint64_t bdf = 0;
      if (pci_of(devices[d], &bdf) == 0) devices_.emplace(PciName(bdf), devices[d]);
    }
  }
}

std::optional<amdsmi::Violations> AmdSmi::ViolationsOf(const std::string& pci) {
  const auto device = devices_.find(pci);
  if (violations_ == nullptr || device == devices_.end()) return std::nullopt;
  amdsmi::Violations violations{};
  if (violations_(device->second, &violations) != 0) return std::nullopt;
  return violations;
}

}  // namespace probing::observe
