#include "pyapi/evaluator.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "pyapi/describe_source.h"
#include "pyapi/evaluate_source.h"
#include "pyapi/functions.h"
#include "pyapi/gil.h"
#include "pyapi/heap.h"
#include "pyapi/heap_source.h"
#include "pyapi/holders_source.h"
#include "pyapi/hooks.h"
#include "pyapi/live_collectives_source.h"
#include "pyapi/live_leaks_source.h"
#include "pyapi/live_source.h"
#include "pyapi/live_table.h"
#include "pyapi/live_torch_source.h"
#include "pyapi/overhead.h"
#include "pyapi/recorder.h"
#include "pyapi/run_source.h"
#include "pyapi/session_source.h"
#include "pyapi/talk.h"
#include "pyapi/talk_functions.h"
#include "pyapi/torch_native.h"

namespace probing::pyapi {
namespace {

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

Part PartOf(Work::Kind kind) {
  switch (kind) {
    case Work::Kind::kEvaluate:
      return Part::kEvaluations;
    case Work::Kind::kLive:
      return Part::kLive;
    case Work::Kind::kHooks:
      return Part::kHooks;
    case Work::Kind::kMemory:
      return Part::kMemory;
  }
  return Part::kEvaluations;
}

// Ends sessions and takes back what they put into the job. Our functions go with it.
void CallLeave(const PythonApi& api, PyObject* helpers) {
  PyObject* leave = api.PyDict_GetItemString(helpers, "leave");
  PyObject* done = leave == nullptr ? nullptr : api.PyObject_CallFunctionObjArgs(leave, nullptr);
  if (done != nullptr) api.Py_DecRef(done);
  api.PyErr_Clear();
}

}  // namespace

Result<void> Evaluator::Start(Work work) {
  if (busy()) {
    return Error{Code::kFailed, "another evaluation is still running in this process",
                 "wait for it, or interrupt it"};
  }
  api_ = FindPython();
  if (api_ == nullptr) return Error{Code::kFailed, "there is no Python in this process", ""};
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
  if (!state_.compare_exchange_strong(expected, State::kChanging)) return false;
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
    const Measured measured(Part::kHooks);
    more = Hooks::LoadSome(*api_);
  }
}

void Evaluator::Run() {
  LoadHooks();
  {
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
    if (expected == State::kAbandoned) return false;
    expected = State::kWaiting;  // in the middle of TakeOver(), which is over in no time
  }
  return true;
}

void Evaluator::DoWork() {
  const Measured measured(PartOf(work_.kind));
  if (work_.kind == Work::Kind::kHooks) {
    (void)Hooks::Configure(*api_, work_.text);
    return;
  }
  if (work_.kind == Work::Kind::kMemory) return Hooks::WriteMemory(*api_);
  if (!PrepareHelpers() || !PrepareTalk()) {
    result_.raised = true;
    result_.traceback = "the probe's own Python code does not compile here\n";
    result_.rows = Error{Code::kFailed, "the probe's own Python code does not compile here", ""};
  } else if (work_.kind == Work::Kind::kLive) {
    MakeLiveTable();
  } else {
    CallEvaluate();
  }
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
  for (const char* source : {kDescribeSource, kEvaluateSource, kHeapSource, kLiveSource, kLiveTorchSource,
                             kHoldersSource, kLiveLeaksSource, kLiveCollectivesSource, kSessionSource}) {
    if (RunSource(*api_, source, names)) continue;
    api_->PyErr_Clear();
    api_->Py_DecRef(names);
    return false;
  }
  if (!AddHeapFunctions(*api_, names)) api_->PyErr_Clear();  // heap.py has others
  helpers_ = names;
  return true;
}

// Our functions, for whoever wants more than a value. Not made for a plain eval: where there is no GIL
// nothing tells when the last of them is gone, and the library could not be unmapped.
bool Evaluator::PrepareTalk() {
  if (talks_ || work_.options.empty()) return true;
  talks_ = api_->type_offset != 0 && AddTalk(*api_, helpers_);
  if (!talks_) api_->PyErr_Clear();
  return talks_;
}

// With the GIL. A new reference, or null without an exception when it was interrupted.
PyObject* Evaluator::CallInterruptibly(const char* function, PyObject* first, PyObject* second,
                                       PyObject* third) {
  PyObject* callable = api_->PyDict_GetItemString(helpers_, function);
  bool was_interrupted = false;
  {
    const std::lock_guard lock(interruptible_mutex_);
    if (stop_before_it_begins_) {
      result_.interrupted = true;
      return nullptr;
    }
    interruptible_ = true;
    interruptible_thread_ = static_cast<unsigned long>(pthread_self());
  }
  PyObject* answer = api_->PyObject_CallFunctionObjArgs(callable, first, second, third, nullptr);
  {
    // From here on nobody may interrupt this thread any more; what is under way is taken back.
    const std::lock_guard lock(interruptible_mutex_);
    interruptible_ = false;
    // It may have arrived or not. Only one that arrives leaves the interpreter as it was.
    was_interrupted = result_.interrupted;
    if (was_interrupted)
      api_->PyThreadState_SetAsyncExc(interruptible_thread_, *api_->PyExc_KeyboardInterrupt);
  }
  if (was_interrupted) {
    api_->PyErr_Clear();
    PyObject* settle = api_->PyDict_GetItemString(helpers_, "settle");
    PyObject* settled = api_->PyObject_CallFunctionObjArgs(settle, nullptr);  // raises, and that was it
    if (settled != nullptr) api_->Py_DecRef(settled);
    api_->PyErr_Clear();
  }
  if (answer == nullptr) api_->PyErr_Clear();  // interrupted in the last moment, within our own code
  return answer;
}

// With the GIL. Python objects are only passed on, never looked into.
void Evaluator::CallEvaluate() {
  PyObject* restore = api_->PyDict_GetItemString(helpers_, "restore");
  PyObject* source =
      api_->PyBytes_FromStringAndSize(work_.text.data(), static_cast<std::ptrdiff_t>(work_.text.size()));
  PyObject* limit = api_->PyLong_FromLongLong(work_.max_output_bytes);
  PyObject* options = api_->PyBytes_FromStringAndSize(work_.options.data(),
                                                      static_cast<std::ptrdiff_t>(work_.options.size()));
  PyObject* answer = CallInterruptibly("evaluate", source, limit, options);
  if (answer == nullptr) {
    result_.raised = true;
    result_.exception = "KeyboardInterrupt";
    result_.traceback = "KeyboardInterrupt\n";
  } else {
    result_.exception = TakeBytes(*api_, answer, 0).value_or("");
    result_.raised = !result_.exception.empty();
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
  for (PyObject* object : {source, limit, options}) api_->Py_DecRef(object);
}

void Evaluator::MakeLiveTable() {
  auto shape = FindLiveTable(work_.text, work_.columns);
  if (!shape.ok()) {
    result_.rows = std::move(shape.error());
    return;
  }
  std::string names;
  for (const std::string& column : work_.columns) names += names.empty() ? column : "," + column;
  PyObject* table =
      api_->PyUnicode_FromStringAndSize(work_.text.data(), static_cast<std::ptrdiff_t>(work_.text.size()));
  PyObject* columns =
      api_->PyUnicode_FromStringAndSize(names.data(), static_cast<std::ptrdiff_t>(names.size()));
  PyObject* rows = CallInterruptibly("live_rows", table, columns);
  result_.rows = EncodeLiveRows(*api_, *shape, rows);
  for (PyObject* object : {table, columns, rows}) {
    if (object != nullptr) api_->Py_DecRef(object);
  }
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
    // Preparations take milliseconds the first time.
    if (!evaluator->interruptible_) evaluator->stop_before_it_begins_ = true;
    if (gil && evaluator->interruptible_) {
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

Evaluator::Left Evaluator::Release(std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  if (!Abandon()) Interrupt();
  while (busy()) {
    (void)Collect();
    if (deadline.passed()) return Left::kThread;
    SleepUs(200);
  }
  while (PendingCallOutstanding()) {
    if (deadline.passed()) return Left::kThread;
    SleepUs(200);
  }
  if (api_ == nullptr) api_ = FindPython();  // the package may have made functions without us
  const bool nothing_there = helpers_ == nullptr && !FunctionsMade();
  if (api_ == nullptr && NativeCodeHasTables()) return Left::kFunction;
  if (api_ == nullptr || nothing_there) {
    Recorder::Close(Recorder::Users::kNone);
    return Left::kNothing;
  }
  if (!api_->Usable()) return FunctionsAlive() ? Left::kFunction : Left::kNothing;
  auto started = StartQuietThread(&ReleaseThread, this, kSmallStackBytes, "probing-eject");
  if (!started.ok()) return Left::kThread;
  while (!released_.load()) {
    if (deadline.passed()) return Left::kThread;
    SleepUs(200);
  }
  pthread_join(*started, nullptr);
  return function_left_ ? Left::kFunction : Left::kNothing;
}

// With the GIL: who has just given our last function back has left our code, and nobody is in the
// middle of a row.
void Evaluator::CloseRecorder() {
  using enum Recorder::Users;
  function_left_ = FunctionsAlive() || InsideTorchCalls();
  // Native code needs no GIL to be inside.
  const bool may_be_inside = !api_->HasGil() || NativeCodeHasTables();
  Recorder::Close(!function_left_ ? kNone : (may_be_inside ? kInside : kOutside));
}

void* Evaluator::ReleaseThread(void* self) {
  auto* evaluator = static_cast<Evaluator*>(self);
  const PythonApi& api = *evaluator->api_;
  bool removed = false;
  constexpr int kMostLooks = 2500;  // half a second
  int looks = 0;
  while (!removed) {
    {
      const Gil gil(api, Gil::Manner::kPatient);
      if (!gil) {  // the end of the process takes care of everything
        evaluator->function_left_ = true;
        break;
      }
      removed = Hooks::Remove(api);
      // A call of the job that is inside of ours mostly comes out of it soon.
      if (removed && InsideTorchCalls() && ++looks < kMostLooks) removed = false;
      if (removed && evaluator->helpers_ != nullptr) {
        if (evaluator->talks_) CallLeave(api, evaluator->helpers_);
        evaluator->talks_ = false;
        RemoveHeapFunctions(api, evaluator->helpers_);
        api.Py_DecRef(evaluator->helpers_);
        evaluator->helpers_ = nullptr;
      }
      if (removed) evaluator->CloseRecorder();
    }
    if (!removed) SleepUs(200);  // a thread of the job is inside of them
  }
  evaluator->released_.store(true);
  return nullptr;
}

}  // namespace probing::pyapi
