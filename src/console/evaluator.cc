#include "console/evaluator.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/thread.h"
#include "hooks/hooks.h"
#include "pyapi/gil.h"
#include "record/overhead.h"

namespace probing::console {

using pyapi::Gil;

namespace {

constexpr std::size_t kEvalStackBytes = 8U << 20;  // evaluated code may recurse like any other

}  // namespace

Result<void> Evaluator::Start(Work work) {
  if (closing_) {
    return Error{Code::kFailed, "the probe is leaving this process: it waits for the GIL",
                 "inject it again when it has left"};
  }
  if (busy()) {
    return Error{Code::kFailed, "another evaluation is still running in this process",
                 "wait for it, or interrupt it"};
  }
  api_ = pyapi::FindPython();
  if (api_ == nullptr) {
    return Error{Code::kFailed,
                 "no Python in this process exports its functions, so no code can be run in it",
                 "`probing backtrace` says whether there is one, and reads its stacks from outside"};
  }
  if (!api_->Usable())
    return Error{Code::kFailed, "Python is starting up or shutting down in this process", ""};
  wants_hooks_.store(work.kind == Work::Kind::kHooks && !work.text.empty() && work.text != "none");
  work_ = std::move(work);
  result_ = Evaluation{};
  stop_before_it_begins_ = false;  // nobody is there yet who could set it
  started_ns_ = MonotonicNs();
  state_.store(State::kWaiting);
  auto started = StartQuietThread(&RunThread, this, kEvalStackBytes, "probing-eval");
  if (!started.ok()) {
    state_.store(State::kIdle);
    return started.error();
  }
  thread_ = *started;
  return {};
}

bool Evaluator::TakeOver(Work work) {
  State expected = State::kWaiting;
  if (!state_.compare_exchange_strong(expected, State::kChanging)) {
    expected = State::kAbandoned;
    if (!state_.compare_exchange_strong(expected, State::kChanging)) return false;
  }
  wants_hooks_.store(false);
  work_ = std::move(work);
  started_ns_ = MonotonicNs();
  state_.store(State::kWaiting);
  return true;
}

void* Evaluator::RunThread(void* self) {
  static_cast<Evaluator*>(self)->Run();
  return nullptr;
}

// Before the work itself and without being bound to it: whoever comes meanwhile waits for one step.
void Evaluator::LoadHooks() {
  bool more = true;
  while (more && wants_hooks_.load() && state_.load() != State::kAbandoned) {
    const Gil gil(*api_);
    if (!gil) return;
    const record::Measured measured(record::Part::kHooks);
    more = hooks::Hooks::LoadSome(*api_);
  }
}

void Evaluator::Run() {
  tid_.store(static_cast<pid_t>(syscall(SYS_gettid)));
  LoadHooks();
  // What was given up needs no GIL. Asking for it could queue a call in the moment in which the main thread
  // goes to sleep, and the probe could not leave before it wakes up.
  State expected = State::kAbandoned;
  if (!state_.compare_exchange_strong(expected, State::kDone)) {
    const Gil gil(*api_);
    if (!BeginRunning()) {
      // Given up meanwhile.
    } else if (!gil) {
      result_.kind = work_.kind;
      result_.raised = true;
      result_.traceback = "Python is shutting down in this process\n";
      result_.rows = Error{Code::kFailed, "Python is shutting down in this process", ""};
    } else {
      result_.kind = work_.kind;
      result_.gil_wait_us = (MonotonicNs() - started_ns_) / 1000;
      DoWork();
      DropEndlessException();
    }
  }
  result_.duration_us = (MonotonicNs() - started_ns_) / 1000;
  state_.store(State::kDone);
  Wake();
}

// False when the work was given up meanwhile.
bool Evaluator::BeginRunning() {
  State expected = State::kWaiting;
  while (!state_.compare_exchange_weak(expected, State::kRunning)) {
    if (expected == State::kAbandoned && state_.compare_exchange_weak(expected, State::kDone)) return false;
    expected = State::kWaiting;  // in the middle of TakeOver(), which is over in no time
  }
  return true;
}

void Evaluator::Wake() const {
  const std::uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

void Evaluator::Interrupt() {
  if (state_.load() != State::kRunning || interrupter_.has_value()) return;
  interrupter_done_.store(false);
  auto started = StartQuietThread(&InterruptThread, this, kSmallStackBytes, "probing-intr");
  if (started.ok()) interrupter_ = *started;
}

std::int64_t Evaluator::running_ms() const { return (MonotonicNs() - started_ns_) / 1'000'000; }

// Until the evaluation is over: code may catch KeyboardInterrupt, or C code may drop it.
void* Evaluator::InterruptThread(void* self) {
  constexpr std::int64_t kFirstPauseMs = 50;
  constexpr std::int64_t kLongestPauseMs = 1000;
  auto* evaluator = static_cast<Evaluator*>(self);
  const PythonApi& api = *evaluator->api_;
  std::int64_t pause_ms = kFirstPauseMs;
  for (bool first = true;; first = false) {
    {
      const Gil gil(api, first ? Gil::Manner::kSoon : Gil::Manner::kPatient);
      // Made before the lock: the evaluation may go on meanwhile, and wants it at its end.
      PyObject* endless = gil && !first ? evaluator->EndlessException() : nullptr;
      const std::lock_guard lock(evaluator->interruptible_mutex_);
      // Preparations take milliseconds the first time.
      if (!evaluator->interruptible_) evaluator->stop_before_it_begins_ = true;
      if (!gil || !evaluator->interruptible_) break;
      evaluator->result_.interrupted = true;
      api.PyThreadState_SetAsyncExc(evaluator->interruptible_thread_,
                                    endless != nullptr ? endless : *api.PyExc_KeyboardInterrupt);
    }
    const Deadline next = Deadline::AfterMs(pause_ms);
    while (!next.passed() && evaluator->state_.load() == State::kRunning) {
      SleepUs(std::min<std::int64_t>(pause_ms * 20, 10'000));
    }
    if (evaluator->state_.load() != State::kRunning) break;
    pause_ms = std::min(2 * pause_ms, kLongestPauseMs);
  }
  evaluator->interrupter_done_.store(true);
  evaluator->Wake();
  return nullptr;
}

bool Evaluator::Abandon() {
  State expected = State::kWaiting;
  return state_.compare_exchange_strong(expected, State::kAbandoned);
}

std::optional<Evaluation> Evaluator::Collect() {
  if (state_.load() != State::kDone) return std::nullopt;
  if (interrupter_.has_value()) {
    if (!interrupter_done_.load()) return std::nullopt;  // it will wake us, too
    pthread_join(*interrupter_, nullptr);
    interrupter_.reset();
  }
  pthread_join(thread_, nullptr);
  state_.store(State::kIdle);
  return std::move(result_);
}

}  // namespace probing::console
