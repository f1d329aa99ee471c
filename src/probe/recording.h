// What the settings say about recording.
#pragma once

#include <string>

#include "record/recorder.h"
#include "wire/settings.h"

namespace probing::probe {

inline record::Recorder::Limits LimitsOf(const wire::Settings& settings) {
  return {.max_memory = static_cast<std::uint64_t>(settings.GetNumber("probing.max_memory")),
          .table_rows = static_cast<std::uint64_t>(settings.GetNumber("probing.table_rows"))};
}

// What hooks::Hooks is to run.
inline std::string HooksOf(const wire::Settings& settings) {
  std::string hooks(settings.Get("probing.python.hooks"));
  const std::string torch(settings.Get("probing.torch.profiling"));
  const std::string snapshots(settings.Get("probing.torch.oom_snapshots"));
  const std::string nvtx(settings.Get("probing.torch.nvtx"));
  if (torch == "off" && nvtx == "none" && snapshots.empty()) return hooks;
  return hooks + ";" + torch + ";" + std::string(settings.Get("probing.torch.max_overhead")) + ";" + nvtx +
         ";" + snapshots;
}

}  // namespace probing::probe
