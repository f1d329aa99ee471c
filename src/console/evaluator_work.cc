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
#include "pyapi/ref.h"
#include "record/overhead.h"
#include "torch/kineto.h"

namespace probing::console {

using hooks::Hooks;
using pyapi::PyMethodDef;
using pyapi::Ref;
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
  return pyapi::NewNone(api);
}

// With the GIL. The class, armed; null where there is none: without a GIL a function of ours would keep the
// library for good.
PyObject* Evaluator::EndlessException() {
  static PyMethodDef method{"end_again", reinterpret_cast<void*>(&EndAgain), pyapi::kMethVarargs, nullptr};
  if (endless_ != nullptr || !api_->HasGil()) return endless_;
  PyObject* arm = helpers_.Find(*api_, "interrupt", "arm_ended");
  const Ref again = Ref::New(*api_, arm == nullptr ? nullptr : pyapi::MakeFunction(*api_, &method, this));
  const Ref ended =
      Ref::New(*api_, again ? api_->PyObject_CallFunctionObjArgs(arm, again.get(), nullptr) : nullptr);
  api_->PyErr_Clear();
  endless_ = ended.get();  // helpers_ has it
  return endless_;
}

// With the GIL, when nothing can be interrupted any more.
void Evaluator::DropEndlessException() {
  if (endless_ == nullptr) return;
  endless_ = nullptr;
  (void)helpers_.Call(*api_, "interrupt", "disarm_ended");
}

// With the GIL and an exception that came out of our own code; clears it.
void Evaluator::NoteOwnFailure() {
  own_failure_.clear();
  if (const Ref kind = Ref::Borrowed(*api_, api_->PyErr_Occurred())) {
    api_->PyErr_Clear();
    const Ref name = Ref::New(*api_, api_->PyObject_GetAttrString(kind.get(), "__name__"));
    const char* text = name ? api_->PyUnicode_AsUTF8AndSize(name.get(), nullptr) : nullptr;
    own_failure_ = text == nullptr ? "an exception" : text;
  }
  api_->PyErr_Clear();
}

// With the GIL. Null without an exception when it was interrupted, or failed (own_failure_).
Ref Evaluator::CallInterruptibly(const char* module, const char* function, const Ref& first,
                                 const Ref& second, const Ref& third) {
  PyObject* callable = helpers_.Find(*api_, module, function);
  bool was_interrupted = false;
  {
    const std::lock_guard lock(interruptible_mutex_);
    if (stop_before_it_begins_) {
      result_.interrupted = true;
      return {};
    }
    interruptible_ = true;
    interruptible_thread_ = static_cast<unsigned long>(pthread_self());
  }
  Ref answer = Ref::New(
      *api_, api_->PyObject_CallFunctionObjArgs(callable, first.get(), second.get(), third.get(), nullptr));
  if (endless_ != nullptr) api_->PyEval_SetTrace(nullptr, nullptr);
  if (!answer) NoteOwnFailure();
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
    (void)helpers_.Call(*api_, "interrupt", "settle");  // raises, and that was it
  }
  return answer;  // null: mostly interrupted in the last moment, within our own code
}

// With the GIL. Python objects are only passed on, never looked into.
void Evaluator::CallEvaluate() {
  const auto bytes_of = [&](const std::string& text) {
    const auto size = static_cast<std::ptrdiff_t>(text.size());
    return Ref::New(*api_, api_->PyBytes_FromStringAndSize(text.data(), size));
  };
  const Ref source = bytes_of(work_.text);
  const Ref limit = Ref::New(*api_, api_->PyLong_FromLongLong(work_.max_output_bytes));
  std::string chosen = work_.options;
  if (work_.out_fd >= 0) {
    if (!chosen.empty()) chosen += '\0';
    chosen += std::string("out_fd\0", 7) + std::to_string(work_.out_fd);
    chosen += std::string("\0err_fd\0", 8) + std::to_string(work_.err_fd);
  }
  const Ref options = bytes_of(chosen);
  const Ref answer = CallInterruptibly("evaluate", "evaluate", source, limit, options);
  if (!answer && result_.interrupted) {
    result_.raised = true;
    result_.exception = "KeyboardInterrupt";
    result_.traceback = "KeyboardInterrupt\n";
  } else if (!answer) {
    result_.raised = true;
    result_.exception = "ProbingError";
    result_.traceback = "Probing's own code failed in this process (" + own_failure_ +
                        "): the code was not run, or its result is lost\n";
  } else {
    result_.exception = TakeBytes(*api_, answer.get(), 0).value_or("");
    result_.raised = !result_.exception.empty();
    result_.out = TakeBytes(*api_, answer.get(), 1).value_or("");
    result_.err = TakeBytes(*api_, answer.get(), 2).value_or("");
    result_.value = TakeBytes(*api_, answer.get(), 3);
    result_.traceback = TakeBytes(*api_, answer.get(), 4);
    result_.cut = !TakeBytes(*api_, answer.get(), 5).value_or("").empty();
  }
  (void)helpers_.Call(*api_, "capture", "restore");
}

void Evaluator::MakeLiveTable() {
  auto shape = FindLiveTable(work_.text, work_.columns);
  if (!shape.ok()) {
    result_.rows = std::move(shape.error());
    return;
  }
  std::string names;
  for (const std::string& column : work_.columns) names += names.empty() ? column : "," + column;
  const auto text_of = [&](const std::string& text) {
    const auto size = static_cast<std::ptrdiff_t>(text.size());
    return Ref::New(*api_, api_->PyUnicode_FromStringAndSize(text.data(), size));
  };
  const Ref table = text_of(work_.text);
  const Ref columns = text_of(names);
  Hooks::LendCensus(*api_, helpers_.Find(*api_, "lent", "lent"));
  const Ref timeout_ms = Ref::New(*api_, api_->PyLong_FromLongLong(work_.timeout_ms));
  const Ref answer = CallInterruptibly("live", "live_rows", table, columns, timeout_ms);
  result_.rows = EncodeLiveRows(*api_, *shape, answer.get());
}

}  // namespace probing::console
