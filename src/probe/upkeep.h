// What the probe does in the interpreter without being asked: hooks, and rows of python.memory.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "probe/evaluations.h"
#include "wire/settings.h"

namespace probing::probe {

// Belongs to the probe's thread. Lifetime: what it is made with outlives it.
class Upkeep {
 public:
  Upkeep(const wire::Settings& settings, Evaluations& evaluations);

  // Does what is due.
  void Look();
  // Settings have changed: looks now, and not when it would have been time.
  void LookSoon();
  int NextLookMs() const;

 private:
  void LookAfterHooks();
  void LookAfterMemory();

  const wire::Settings& settings_;
  Evaluations& evaluations_;
  std::int64_t look_every_ms_;
  Deadline look_after_hooks_;
  std::optional<Deadline> next_memory_;  // nothing while there are no hooks
};

}  // namespace probing::probe
