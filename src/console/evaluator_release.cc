// How everything of ours leaves the interpreter.
#include <utility>

#include "base/clock.h"
#include "base/thread.h"
#include "console/evaluator.h"
#include "hooks/hooks.h"
#include "pyapi/exit_guard.h"
#include "pyapi/functions.h"
#include "pyapi/gil.h"
#include "pyapi/left_behind.h"
#include "record/recorder.h"
#include "torch/tracer.h"

namespace probing::console {

using pyapi::CallInside;
using pyapi::FunctionsAlive;
using pyapi::Gil;
using record::Recorder;

Evaluator::Left Evaluator::Release(std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  // Before the GIL is taken: gil.h says why. Where the main thread does not come to it, all but the library
  // goes.
  const Deadline patience = Deadline::AfterMs(timeout_ms / 2);
  if (!releasing() && !Abandon()) Interrupt();
  closing_ = true;
  while (state_.load() != State::kIdle) {
    (void)Collect();
    if (deadline.passed()) {
      closing_ = state_.load() != State::kRunning;
      return closing_ ? Left::kWaiting : Left::kRunning;
    }
    SleepUs(200);
  }
  while (pyapi::PendingCallOutstanding() && !patience.passed()) SleepUs(200);
  const bool queued = pyapi::PendingCallOutstanding();
  if (api_ == nullptr) api_ = pyapi::FindPython();  // the package may have made functions without us
  const bool nothing_there = helpers_.empty() && !pyapi::FunctionsMade();
  if (api_ == nullptr && pyapi::NativeCodeHasTables()) return Left::kFunction;
  if (api_ == nullptr || nothing_there) {
    Recorder::Close(Recorder::Users::kNone);
    return queued ? Left::kWaiting : Left::kNothing;
  }
  if (!api_->Usable()) return FunctionsAlive() || queued ? Left::kFunction : Left::kNothing;
  if (!releasing()) {
    auto started = StartQuietThread(&ReleaseThread, this, kSmallStackBytes, "probing-eject");
    if (!started.ok()) return Left::kWaiting;
    releaser_ = *started;
  }
  while (!released_.load()) {
    if (deadline.passed()) return Left::kWaiting;
    SleepUs(200);
  }
  pthread_join(*std::exchange(releaser_, std::nullopt), nullptr);
  released_.store(false);
  if (queued) return Left::kWaiting;  // the main thread sleeps, and will come to a call of ours first
  return function_left_ ? Left::kFunction : Left::kNothing;
}

// Ends sessions and takes back what they put into the job; our functions go with it.
void Evaluator::ForgetHelpers() {
  pyapi::LeaveBehind(*api_, helpers_.Find(*api_, "capture", "left_streams"));
  if (std::exchange(has_functions_, false)) (void)helpers_.Call(*api_, "session", "leave");
  helpers_.Forget(*api_);
}

// With the GIL: who has just given our last function back has left our code, and nobody is in the
// middle of a row.
void Evaluator::CloseRecorder() {
  using enum Recorder::Users;
  function_left_ = FunctionsAlive() || CallInside::Any();
  // Not before: a thread may be in a function of ours, which looks at the tracer when it goes on.
  if (!function_left_) torch::ForgetTorchTracer();
  // Native code needs no GIL to be inside.
  const bool may_be_inside = !api_->HasGil() || pyapi::NativeCodeHasTables();
  Recorder::Close(!function_left_ ? kNone : (may_be_inside ? kInside : kOutside));
}

bool ReleaseLast(const PythonApi& api) {
  const Gil gil(api, Gil::Manner::kPatient);
  if (!gil || FunctionsAlive() || CallInside::Any()) return false;
  torch::ForgetTorchTracer();
  Recorder::Close(Recorder::Users::kNone);
  return true;
}

void* Evaluator::ReleaseThread(void* self) {
  auto* evaluator = static_cast<Evaluator*>(self);
  const PythonApi& api = *evaluator->api_;
  bool removed = false;
  constexpr int kMostLooks = 2500;             // half a second
  constexpr int kMostLooksForFunctions = 500;  // some are kept for good
  int looks = 0;
  while (!removed) {
    {
      const Gil gil(api, Gil::Manner::kPatient);
      if (!gil) {  // the end of the process takes care of everything
        evaluator->function_left_ = true;
        break;
      }
      removed = hooks::Hooks::Remove(api);
      // A call of the job that is inside of ours mostly comes out of it soon.
      if (removed && CallInside::Any() && ++looks < kMostLooks) removed = false;
      if (removed) evaluator->ForgetHelpers();
      if (removed) pyapi::RemoveExitGuard(api);
      // So does one that goes through hooks, and has one of ours in hand.
      if (removed && FunctionsAlive() && ++looks < kMostLooksForFunctions) removed = false;
      if (removed) evaluator->CloseRecorder();
    }
    if (!removed) SleepUs(200);  // a thread of the job is inside of them
  }
  evaluator->released_.store(true);
  evaluator->Wake();
  return nullptr;
}

}  // namespace probing::console
