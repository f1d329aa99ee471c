// crash.events: one row about how a target ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "observe/host/exit_watcher.h"
#include "ring/arena.h"

namespace probing::observe {

// What was known of the target while it lived.
struct EndedTarget {
  std::string name;
  std::string cmdline;
  std::optional<std::int64_t> started_ns;
  std::optional<std::int64_t> last_step;
  // The exception that nobody caught, if the probe saw one: "ValueError: no". Counts when it left by exit.
  std::string exception;
};

Result<void> WriteCrashEvent(ring::Arena& arena, const HowItEnded& how, const EndedTarget& target);

}  // namespace probing::observe
