// What the settings say about recording.
#pragma once

#include <string>
#include <string_view>

#include "record/recorder.h"
#include "wire/settings.h"

namespace probing::probe {

inline record::Recorder::Limits LimitsOf(const wire::Settings& settings) {
  return {.max_memory = static_cast<std::uint64_t>(settings.GetNumber("probing.max_memory")),
          .table_rows = static_cast<std::uint64_t>(settings.GetNumber("probing.table_rows"))};
}

inline std::string HexDigits(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) {
    digits += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4U];
    digits += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15U];
  }
  return digits;
}

// What hooks::Hooks is to run.
inline std::string HooksOf(const wire::Settings& settings) {
  std::string hooks(settings.Get("probing.python.hooks"));
  const std::string torch(settings.Get("probing.torch.profiling"));
  const std::string snapshots(settings.Get("probing.torch.oom_snapshots"));
  const std::string nvtx(settings.Get("probing.torch.nvtx"));
  const std::string_view pattern = settings.Get("probing.stalls.log");
  const std::string log = pattern == "none" ? "" : HexDigits(pattern);
  if (torch == "off" && nvtx == "none" && log.empty() && snapshots.empty()) return hooks;
  return hooks + ";" + torch + ";" + std::string(settings.Get("probing.torch.max_overhead")) + ";" + nvtx +
         ";" + log + ";" + snapshots;
}

}  // namespace probing::probe
