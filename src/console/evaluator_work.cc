// What the evaluator's thread does once it has the GIL.
#include <array>

#include "console/evaluator.h"
#include "console/live_table.h"
#include "console/still.h"
#include "console/talk_functions.h"
#include "hooks/hooks.h"
#include "pyapi/embedded.h"
#include "pyapi/functions.h"
#include "pyapi/heap.h"
#include "pyapi/left_behind.h"
#include "record/overhead.h"
#include "torch/kineto.h"

namespace probing::console {

using hooks::Hooks;
using pyapi::PyMethodDef;
using record::Part;

namespace {

constexpr pyapi::NativeContent kContents[] = {
    {"native", &pyapi::OfferLeftBehind}, {"heap", &pyapi::AddHeapFunctions}, {"still", &AddStillFunctions}};

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

}  // namespace

Evaluator::Evaluator(int wake_fd) : wake_fd_(wake_fd), helpers_(kContents) {}

void Evaluator::DoWork() {
  const record::Measured measured(PartOf(work_.kind));
  if (work_.kind == Work::Kind::kHooks) {
    (void)Hooks::Configure(*api_, work_.text);
    return;
  }
  if (work_.kind == Work::Kind::kMemory) return Hooks::WriteMemory(*api_);
  const bool live = work_.kind == Work::Kind::kLive;
  if (!PrepareHelpers(live ? "live" : "session") || !AddFunctions()) {
    result_.raised = true;
    result_.traceback = "the probe's own Python code does not compile here\n";
    result_.rows = Error{Code::kFailed, "the probe's own Python code does not compile here", ""};
  } else if (live) {
    MakeLiveTable();
  } else {
    CallEvaluate();
  }
}

bool Evaluator::PrepareHelpers(const char* module) {
  if (helpers_.Load(*api_, "interrupt") && helpers_.Load(*api_, module)) return true;
  api_->PyErr_Clear();
  return false;
}

// Our functions, when more is wanted than a value. Not made for a plain eval: where there is no GIL
// nothing tells when the last of them is gone, and the library could not be unmapped.
bool Evaluator::AddFunctions() {
  if (has_functions_ || work_.options.empty()) return true;
  has_functions_ = api_->type_offset != 0 && helpers_.AddLoader(*api_) &&
                   AddTalkFunctions(*api_, helpers_.Names("native")) &&
                   torch::AddKinetoFunction(*api_, helpers_.Names("native"));
  if (!has_functions_) api_->PyErr_Clear();
  return has_functions_;
}

namespace {

// Called by the interpreter on the thread that is to end, for each line it comes to. One of Python's own
// trace functions is taken out when it raises; this one stays.
int RaiseAtEveryLine(PyObject*, PyObject*, int what, PyObject*) {
  constexpr int kCall = 0;
  constexpr int kLine = 2;
  if (what != kCall && what != kLine) return 0;
  const PythonApi& api = *pyapi::FindPython();
  api.PyErr_SetString(*api.PyExc_KeyboardInterrupt, "");
  return -1;
}

}  // namespace

// __init__ of the class Ended of interrupt.py: an exception of it is being made on the thread that is to end.
// From now on every line raises: the one that catches this exception, too, and so on until all calls are
// over.
PyObject* Evaluator::EndAgain(PyObject* self, PyObject*) {
  const PythonApi& api = *pyapi::FindPython();
  auto* evaluator = static_cast<Evaluator*>(pyapi::FunctionData(api, self));
  if (evaluator->endless_ != nullptr && evaluator->interruptible_ &&
      evaluator->interruptible_thread_ == static_cast<unsigned long>(pthread_self())) {
    api.PyEval_SetTrace(&RaiseAtEveryLine, nullptr);
  }
  api.Py_IncRef(api._Py_NoneStruct);
  return api._Py_NoneStruct;
}

// With the GIL. The class, armed; null where there is none: without a GIL a function of ours would keep the
// library for good.
PyObject* Evaluator::EndlessException() {
  static PyMethodDef method{"end_again", reinterpret_cast<void*>(&EndAgain), pyapi::kMethVarargs, nullptr};
  if (endless_ != nullptr || !api_->HasGil()) return endless_;
  PyObject* arm = helpers_.Find(*api_, "interrupt", "arm_ended");
  PyObject* again = arm == nullptr ? nullptr : pyapi::MakeFunction(*api_, &method, this);
  PyObject* ended = again == nullptr ? nullptr : api_->PyObject_CallFunctionObjArgs(arm, again, nullptr);
  if (again != nullptr) api_->Py_DecRef(again);
  if (ended != nullptr) api_->Py_DecRef(ended);  // helpers_ has it
  api_->PyErr_Clear();
  endless_ = ended;
  return endless_;
}

// With the GIL, when nothing can be interrupted any more.
void Evaluator::DropEndlessException() {
  if (endless_ == nullptr) return;
  endless_ = nullptr;
  PyObject* done = helpers_.Call(*api_, "interrupt", "disarm_ended");
  if (done != nullptr) api_->Py_DecRef(done);
}

// With the GIL and an exception that came out of our own code; clears it.
void Evaluator::NoteOwnFailure() {
  own_failure_.clear();
  if (PyObject* kind = api_->PyErr_Occurred()) {
    api_->Py_IncRef(kind);
    api_->PyErr_Clear();
    PyObject* name = api_->PyObject_GetAttrString(kind, "__name__");
    const char* text = name == nullptr ? nullptr : api_->PyUnicode_AsUTF8AndSize(name, nullptr);
    own_failure_ = text == nullptr ? "an exception" : text;
    if (name != nullptr) api_->Py_DecRef(name);
    api_->Py_DecRef(kind);
  }
  api_->PyErr_Clear();
}

// With the GIL. A new reference, or null without an exception when it was interrupted, or failed
// (own_failure_).
PyObject* Evaluator::CallInterruptibly(const char* module, const char* function, PyObject* first,
                                       PyObject* second, PyObject* third) {
  PyObject* callable = helpers_.Find(*api_, module, function);
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
  if (endless_ != nullptr) api_->PyEval_SetTrace(nullptr, nullptr);
  if (answer == nullptr) NoteOwnFailure();
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
    PyObject* settled = helpers_.Call(*api_, "interrupt", "settle");  // raises, and that was it
    if (settled != nullptr) api_->Py_DecRef(settled);
  }
  return answer;  // null: mostly interrupted in the last moment, within our own code
}

// With the GIL. Python objects are only passed on, never looked into.
void Evaluator::CallEvaluate() {
  PyObject* source =
      api_->PyBytes_FromStringAndSize(work_.text.data(), static_cast<std::ptrdiff_t>(work_.text.size()));
  PyObject* limit = api_->PyLong_FromLongLong(work_.max_output_bytes);
  std::string chosen = work_.options;
  if (work_.out_fd >= 0) {
    if (!chosen.empty()) chosen += '\0';
    chosen += std::string("out_fd\0", 7) + std::to_string(work_.out_fd);
    chosen += std::string("\0err_fd\0", 8) + std::to_string(work_.err_fd);
  }
  PyObject* options =
      api_->PyBytes_FromStringAndSize(chosen.data(), static_cast<std::ptrdiff_t>(chosen.size()));
  PyObject* answer = CallInterruptibly("evaluate", "evaluate", source, limit, options);
  if (answer == nullptr && result_.interrupted) {
    result_.raised = true;
    result_.exception = "KeyboardInterrupt";
    result_.traceback = "KeyboardInterrupt\n";
  } else if (answer == nullptr) {
    result_.raised = true;
    result_.exception = "ProbingError";
    result_.traceback = "Probing's own code failed in this process (" + own_failure_ +
                        "): the code was not run, or its result is lost\n";
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
  PyObject* restored = helpers_.Call(*api_, "capture", "restore");
  if (restored != nullptr) api_->Py_DecRef(restored);
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
  Hooks::LendCensus(*api_, helpers_.Find(*api_, "lent", "lent"));
  PyObject* timeout_ms = api_->PyLong_FromLongLong(work_.timeout_ms);
  PyObject* answer = CallInterruptibly("live", "live_rows", table, columns, timeout_ms);
  result_.rows = EncodeLiveRows(*api_, *shape, answer);
  for (PyObject* object : {table, columns, timeout_ms, answer}) {
    if (object != nullptr) api_->Py_DecRef(object);
  }
}

}  // namespace probing::console
