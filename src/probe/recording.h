// What the settings say about recording.
#pragma once

#include "pyapi/recorder.h"
#include "wire/settings.h"

namespace probing::probe {

inline pyapi::Recorder::Limits LimitsOf(const wire::Settings& settings) {
  return {.max_memory = static_cast<std::uint64_t>(settings.GetNumber("probing.max_memory")),
          .table_rows = static_cast<std::uint64_t>(settings.GetNumber("probing.table_rows"))};
}

}  // namespace probing::probe
