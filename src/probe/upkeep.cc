#include "probe/upkeep.h"

#include <algorithm>

#include "hooks/hooks.h"
#include "probe/lifecycle.h"
#include "probe/recording.h"

namespace probing::probe {
namespace {

using console::Work;

constexpr std::int64_t kFirstLookMs = 25;  // when we came uninvited; else kSoonMs
constexpr std::int64_t kSoonMs = 10;
constexpr std::int64_t kLookEveryMs = 500;
constexpr std::int64_t kSeldomMs = 60'000;

}  // namespace

Upkeep::Upkeep(const wire::Settings& settings, Evaluations& evaluations)
    : settings_(settings),
      evaluations_(evaluations),
      look_every_ms_(ThisOrigin() == Origin::kInjected ? kFirstLookMs : kSoonMs),
      look_after_hooks_(Deadline::AfterMs(look_every_ms_)) {}

void Upkeep::Look() {
  LookAfterHooks();
  LookAfterMemory();
}

void Upkeep::LookSoon() {
  next_memory_.reset();
  if (!hooks::Hooks::Run(HooksOf(settings_))) look_after_hooks_ = Deadline::AfterMs(0);
}

int Upkeep::NextLookMs() const {
  int next_ms = look_after_hooks_.left_ms();
  // While work is under way its end wakes us.
  if (next_memory_ && !evaluations_.busy()) next_ms = std::min(next_ms, next_memory_->left_ms());
  return next_ms;
}

// Puts the hooks in place once there is a Python, and has them look at what was imported since. Does
// nothing and costs next to nothing while nothing has changed. After an injection the first look comes
// a little later than we do: a short visit leaves the interpreter alone.
void Upkeep::LookAfterHooks() {
  if (!look_after_hooks_.passed()) return;
  const pyapi::PythonApi* python = pyapi::FindPython();
  const bool usable = python != nullptr && python->Usable();
  // Looking for a Python is dear. One that is not there yet is about to come, or never will.
  look_every_ms_ = usable ? kLookEveryMs : std::min(2 * look_every_ms_, kSeldomMs);
  look_after_hooks_ = Deadline::AfterMs(look_every_ms_);
  if (!usable) return;
  const std::string wanted = HooksOf(settings_);
  const bool as_wanted = hooks::Hooks::Run(wanted);
  if (evaluations_.busy()) {  // with a row of python.memory, mostly: a setting need not wait for long
    if (!as_wanted) look_after_hooks_ = Deadline::AfterMs(kSoonMs);
    return;
  }
  if (as_wanted && !hooks::Hooks::ModulesChanged(*python)) return;
  evaluations_.StartOwn({Work::Kind::kHooks, wanted});
}

// Adds a row to python.memory now and then. It waits for the hooks, whose setting names it.
void Upkeep::LookAfterMemory() {
  const std::string_view wanted = settings_.Get("probing.python.hooks");
  if (wanted.find("memory") == std::string_view::npos || !hooks::Hooks::Run(HooksOf(settings_))) {
    next_memory_.reset();
    return;
  }
  const auto interval_ms =
      static_cast<std::int64_t>(settings_.GetNumber("probing.python.memory_interval") * 1000);
  if (!next_memory_) next_memory_ = Deadline::AfterMs(0);
  if (!next_memory_->passed() || evaluations_.busy()) return;
  next_memory_ = Deadline::AfterMs(interval_ms);
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python != nullptr && python->Usable()) evaluations_.StartOwn({Work::Kind::kMemory});
}

}  // namespace probing::probe
