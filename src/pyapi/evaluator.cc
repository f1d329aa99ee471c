#include "pyapi/evaluator.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "pyapi/evaluate_source.h"
#include "pyapi/gil.h"

namespace probing::pyapi {
namespace {

constexpr int kFileInput = 257;                    // Py_file_input
constexpr std::size_t kEvalStackBytes = 8U << 20;  // evaluated code may recurse like any other

std::optional<std::string> TakeBytes(const PythonApi& api, PyObject* tuple, std::ptrdiff_t index) {
  char* text = nullptr;
  std::ptrdiff_t size = 0;
  PyObject* item = api.PyTuple_GetItem(tuple, index);
  if (item == nullptr || api.PyBytes_AsStringAndSize(item, &text, &size) != 0) {
    api.PyErr_Clear();  // None
    return std::nullopt;
  }
  return std::string(text, static_cast<std::size_t>(size));
}

}  // namespace

Result<void> Evaluator::Start(std::string source, std::int64_t max_output_bytes) {
  if (busy()) {
    return Error{Code::kFailed, "another evaluation is still running in this process",
                 "wait for it, or interrupt it"};
  }
  api_ = FindPython();
  if (api_ == nullptr) return Error{Code::kFailed, "there is no Python in this process", ""};
  if (!api_->Usable())
    return Error{Code::kFailed, "Python is starting up or shutting down in this process", ""};
  source_ = std::move(source);
  max_output_bytes_ = max_output_bytes;
  result_ = Evaluation{};
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

void* Evaluator::RunThread(void* self) {
  static_cast<Evaluator*>(self)->Run();
  return nullptr;
}

void Evaluator::Run() {
  {
    const Gil gil(*api_);
    State expected = State::kWaiting;
    if (state_.compare_exchange_strong(expected, State::kRunning)) {
      result_.gil_wait_us = (MonotonicNs() - started_ns_) / 1000;
      if (PrepareHelpers()) {
        CallEvaluate();
      } else {
        result_.raised = true;
        result_.traceback = "the probe's own Python code does not compile here\n";
      }
    }
  }
  result_.duration_us = (MonotonicNs() - started_ns_) / 1000;
  state_.store(State::kDone);
  Wake();
}

void Evaluator::Wake() const {
  const std::uint64_t one = 1;
  (void)!write(wake_fd_, &one, sizeof(one));
}

bool Evaluator::PrepareHelpers() {
  if (helpers_ != nullptr) return true;
  PyObject* names = api_->PyDict_New();
  if (names == nullptr) return false;
  api_->PyDict_SetItemString(names, "__builtins__", api_->PyEval_GetBuiltins());
  PyObject* done = api_->PyRun_String(kEvaluateSource, kFileInput, names, names);
  if (done == nullptr) {
    api_->PyErr_Clear();
    api_->Py_DecRef(names);
    return false;
  }
  api_->Py_DecRef(done);
  helpers_ = names;
  return true;
}

// With the GIL. Python objects are only passed on, never looked into.
void Evaluator::CallEvaluate() {
  PyObject* evaluate = api_->PyDict_GetItemString(helpers_, "evaluate");
  PyObject* restore = api_->PyDict_GetItemString(helpers_, "restore");
  PyObject* source =
      api_->PyBytes_FromStringAndSize(source_.data(), static_cast<std::ptrdiff_t>(source_.size()));
  PyObject* limit = api_->PyLong_FromLongLong(max_output_bytes_);
  {
    const std::lock_guard lock(interruptible_mutex_);
    interruptible_ = true;
    interruptible_thread_ = static_cast<unsigned long>(pthread_self());
  }
  PyObject* answer = api_->PyObject_CallFunctionObjArgs(evaluate, source, limit, nullptr);
  {
    // From here on nobody may interrupt this thread any more; what is under way is taken back.
    const std::lock_guard lock(interruptible_mutex_);
    interruptible_ = false;
    api_->PyThreadState_SetAsyncExc(interruptible_thread_, nullptr);
  }
  if (answer == nullptr) {  // interrupted in the last moment, within our own code
    api_->PyErr_Clear();
    result_.raised = true;
    result_.traceback = "KeyboardInterrupt\n";
  } else {
    result_.raised = !TakeBytes(*api_, answer, 0).value_or("").empty();
    result_.out = TakeBytes(*api_, answer, 1).value_or("");
    result_.err = TakeBytes(*api_, answer, 2).value_or("");
    result_.value = TakeBytes(*api_, answer, 3);
    result_.traceback = TakeBytes(*api_, answer, 4);
    result_.cut = !TakeBytes(*api_, answer, 5).value_or("").empty();
    api_->Py_DecRef(answer);
  }
  PyObject* restored = api_->PyObject_CallFunctionObjArgs(restore, nullptr);
  if (restored == nullptr) {
    api_->PyErr_Clear();
  } else {
    api_->Py_DecRef(restored);
  }
  api_->Py_DecRef(source);
  api_->Py_DecRef(limit);
}

void Evaluator::Interrupt() {
  if (state_.load() != State::kRunning || interrupter_.has_value()) return;
  interrupter_done_.store(false);
  auto started = StartQuietThread(&InterruptThread, this, kSmallStackBytes, "probing-intr");
  if (started.ok()) interrupter_ = *started;
}

void* Evaluator::InterruptThread(void* self) {
  auto* evaluator = static_cast<Evaluator*>(self);
  {
    const Gil gil(*evaluator->api_);
    const std::lock_guard lock(evaluator->interruptible_mutex_);
    if (evaluator->interruptible_) {
      evaluator->result_.interrupted = true;
      evaluator->api_->PyThreadState_SetAsyncExc(evaluator->interruptible_thread_,
                                                 *evaluator->api_->PyExc_KeyboardInterrupt);
    }
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

bool Evaluator::Release(std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  if (!Abandon()) Interrupt();
  while (busy()) {
    (void)Collect();
    if (deadline.passed()) return false;
    SleepUs(200);
  }
  while (PendingCallOutstanding()) {
    if (deadline.passed()) return false;
    SleepUs(200);
  }
  if (helpers_ == nullptr || !api_->Usable()) return true;
  auto started = StartQuietThread(&ReleaseThread, this, kSmallStackBytes, "probing-eject");
  if (!started.ok()) return false;
  while (!released_.load()) {
    if (deadline.passed()) return false;
    SleepUs(200);
  }
  pthread_join(*started, nullptr);
  return true;
}

void* Evaluator::ReleaseThread(void* self) {
  auto* evaluator = static_cast<Evaluator*>(self);
  {
    const Gil gil(*evaluator->api_, Gil::Manner::kPatient);
    evaluator->api_->Py_DecRef(evaluator->helpers_);
    evaluator->helpers_ = nullptr;
  }
  evaluator->released_.store(true);
  return nullptr;
}

}  // namespace probing::pyapi
