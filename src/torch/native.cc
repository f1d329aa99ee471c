#include "torch/native.h"

#include <array>
#include <optional>

#include "base/clock.h"
#include "pyapi/functions.h"
#include "pyapi/ref.h"
#include "torch/function_patch.h"
#include "torch/rows.h"
#include "torch/tracer.h"

namespace probing::torch {

using pyapi::kMethFastcall;
using pyapi::kMethNoargs;
using pyapi::kMethVarargs;
using pyapi::PyMethodDef;

namespace {

constexpr std::size_t kCountMask = ~(std::size_t{1} << (8 * sizeof(std::size_t) - 1));

const PythonApi* python = nullptr;
char no_data;
TracedThreads threads;
bool forked = false;
FunctionPatch next_batch;

// A call that is not within another one, or one of a step that is traced in full.
PyObject* TraceModuleCall(PyObject* function, PyObject* const* arguments, std::size_t count_and_flag,
                          PyObject* keywords) {
  const std::size_t count = count_and_flag & kCountMask;
  TorchTracer& tracer = TheTorchTracer();
  TracedThread* thread = tracer.running() && count > 0 && !forked ? threads.Current() : nullptr;
  // Calls within another one are covered by that one: our code has to stay as long as it is under way.
  const bool outermost = thread == nullptr || !thread->inside;
  std::optional<pyapi::CallInside> inside;
  if (outermost) inside.emplace();
  if (thread == nullptr) return plain_vectorcall(function, arguments, count_and_flag, keywords);
  std::int64_t begin_ns = 0;
  if (outermost) {
    thread->inside = true;
    begin_ns = tracer.NowNs();
    tracer.OutermostBegins(*thread, arguments[0], begin_ns);
  }
  const std::int32_t index = tracer.sampling() ? tracer.CallBegins(*thread, arguments, count) : -1;
  const std::uint64_t generation = tracer.generation();
  // Looking and going on takes little, but in a model of many tiny modules our code and data are out of the
  // processor's caches at each of them: what is not to be noted does not come here at all.
  const bool alone = outermost && !tracer.sampling() && !tracer.looking() && tracer.IsTrainer(*thread);
  if (alone) tracer.calls().Pause(*python);
  PyObject* result = plain_vectorcall(function, arguments, count_and_flag, keywords);
  if (alone) tracer.calls().Resume(*python);
  if (tracer.generation() == generation) {
    if (index >= 0) tracer.CallEnded(*thread, index, arguments, count, result);
    if (outermost && tracer.generation() == generation) tracer.OutermostEnded(*thread, begin_ns);
    if (result != nullptr && (index >= 0 || outermost || tracer.looking()) && tracer.looks_at_outputs()) {
      tracer.LookAtOutput(*thread, arguments[0], result);
    }
  }
  if (outermost) thread->inside = false;
  return result;
}

// nn.Module.__call__(module, …). A hot path: within another call, in a step that is not traced in full, it
// looks and goes on, by a jump, so that nothing of ours is on the stack.
PyObject* OnModuleCall(PyObject* function, PyObject* const* arguments, std::size_t count_and_flag,
                       PyObject* keywords) {
  const bool passes = !TorchTracer::sampling() && !TorchTracer::looking() && threads.Inside();
  const Vectorcall go_on = passes ? plain_vectorcall : &TraceModuleCall;
  return go_on(function, arguments, count_and_flag, keywords);
}

// The __next__ of a data loader's iterator.
PyObject* OnNextBatch(PyObject* function, PyObject* const* arguments, std::size_t count_and_flag,
                      PyObject* keywords) {
  const pyapi::CallInside inside;
  TorchTracer& tracer = TheTorchTracer();
  TracedThread* thread = tracer.running() && !forked ? threads.Current() : nullptr;
  // A loader may read another one.
  if (thread == nullptr || thread->fetches) {
    return plain_vectorcall(function, arguments, count_and_flag, keywords);
  }
  thread->fetches = true;
  const std::int64_t begin_ns = tracer.NowNs();
  tracer.FetchBegins(thread, begin_ns);
  PyObject* result = plain_vectorcall(function, arguments, count_and_flag, keywords);
  thread->fetches = false;
  if (tracer.running() && !forked) tracer.FetchEnded(thread, begin_ns, tracer.NowNs());
  return result;
}

PyObject* None() { return pyapi::NewNone(*python); }

PyObject* Bool(bool value) { return pyapi::NewBool(*python, value); }

std::string TextAt(PyObject* arguments, std::ptrdiff_t index) {
  PyObject* item = python->PyTuple_GetItem(arguments, index);
  const char* text = item == nullptr ? nullptr : python->PyUnicode_AsUTF8AndSize(item, nullptr);
  python->PyErr_Clear();
  return text == nullptr ? "" : text;
}

PyObject* TorchStart(PyObject*, PyObject* arguments) {
  const auto item = [&](std::ptrdiff_t i) { return python->PyTuple_GetItem(arguments, i); };
  if (python->PyTuple_Size(arguments) != 7 || python->PyTuple_Size(item(6)) != TorchTracer::kObjects) {
    python->PyErr_SetString(*python->PyExc_TypeError, "torch_start takes seven arguments");
    return nullptr;
  }
  PyObject* objects[TorchTracer::kObjects];
  for (std::size_t i = 0; i < TorchTracer::kObjects; ++i) {
    objects[i] = python->PyTuple_GetItem(item(6), static_cast<std::ptrdiff_t>(i));
  }
  const TorchTracer::Options options{.rate = python->PyFloat_AsDouble(item(0)),
                                     .may_thin = item(1) == python->_Py_TrueStruct,
                                     .max_overhead = python->PyFloat_AsDouble(item(2)),
                                     .modules = item(3) == python->_Py_TrueStruct,
                                     .backward = item(4) == python->_Py_TrueStruct,
                                     .looks = item(5) == python->_Py_TrueStruct};
  forked = false;
  return Bool(TheTorchTracer().Start(*python, options, objects));
}

PyObject* TorchAround(PyObject*, PyObject* arguments) {
  const std::string what = TextAt(arguments, 0);
  PyObject* function = python->PyTuple_GetItem(arguments, 1);
  PyObject* untouched = python->PyTuple_GetItem(arguments, 2);
  if (function == nullptr || untouched == nullptr) return nullptr;
  FunctionPatch& patch = what == "call" ? TheTorchTracer().calls() : next_batch;
  if (patch.IsFor(function)) return Bool(true);
  if (patch.installed()) patch.Remove(*python);  // torch was imported anew
  return Bool(patch.Install(*python, function, untouched, what == "call" ? &OnModuleCall : &OnNextBatch));
}

PyObject* TorchStop(PyObject*, PyObject*) {
  StopTorch(*python);
  return None();
}

PyObject* TorchName(PyObject*, PyObject* arguments) {
  PyObject* module = python->PyTuple_GetItem(arguments, 0);
  if (module == nullptr || python->PyTuple_Size(arguments) != 4) return nullptr;
  TheTorchTracer().AddName(module, TextAt(arguments, 1), TextAt(arguments, 2),
                           python->PyTuple_GetItem(arguments, 3) == python->_Py_TrueStruct);
  return None();
}

PyObject* TorchForget(PyObject*, PyObject* arguments) {
  PyObject* id = python->PyTuple_GetItem(arguments, 0);
  int overflow = 0;
  const long long address = id == nullptr ? 0 : python->PyLong_AsLongLongAndOverflow(id, &overflow);
  python->PyErr_Clear();
  TheTorchTracer().ForgetName(reinterpret_cast<const PyObject*>(address));
  return None();
}

PyObject* OptimizerBegins(PyObject*, PyObject* const* arguments, std::ptrdiff_t count) {
  if (!forked && count > 0) TheTorchTracer().OptimizerBegins(threads.Current(), arguments[0]);
  return None();
}

PyObject* OptimizerEnded(PyObject*, PyObject* const* arguments, std::ptrdiff_t count) {
  if (!forked && count > 0) TheTorchTracer().OptimizerEnded(arguments[0]);
  return None();
}

PyObject* UpdateBegins(PyObject*, PyObject* const*, std::ptrdiff_t) {
  if (!forked) TheTorchTracer().UpdateBegins(threads.Current());
  return None();
}

PyObject* UpdateEnded(PyObject*, PyObject* const* arguments, std::ptrdiff_t count) {
  if (!forked && count == 2) {
    TheTorchTracer().UpdateEnded(arguments[0], arguments[1] == python->_Py_TrueStruct);
  }
  return None();
}

// Around a framework's own function that makes the backward pass: what it does beside that is counted, too.
PyObject* PassBegins(PyObject*, PyObject* const*, std::ptrdiff_t) {
  if (!forked) TheTorchTracer().BackwardBegins(threads.Current());
  return None();
}

PyObject* PassEnded(PyObject*, PyObject* const*, std::ptrdiff_t) {
  if (!forked) TheTorchTracer().BackwardEnded(threads.Current(), /*raised=*/false);
  return None();
}

// Instead of torch.autograd.backward, which it calls. Whoever keeps it keeps our code.
PyObject* OnBackward(PyObject* self, PyObject* const* arguments, std::ptrdiff_t count, PyObject* keywords) {
  auto* original = static_cast<PyObject*>(pyapi::FunctionData(*python, self));
  TracedThread* thread = forked ? nullptr : threads.Current();
  TheTorchTracer().BackwardBegins(thread);
  PyObject* result = plain_vectorcall(original, arguments, static_cast<std::size_t>(count), keywords);
  if (!forked) TheTorchTracer().BackwardEnded(thread, result == nullptr);
  return result;
}

PyMethodDef backward_method{"backward", reinterpret_cast<void*>(&OnBackward),
                            kMethFastcall | pyapi::kMethKeywords,
                            "torch.autograd.backward, whose time Probing takes"};

// (original, a function nobody has touched) -> what to put there, or None.
PyObject* TorchWrapBackward(PyObject*, PyObject* arguments) {
  PyObject* original = python->PyTuple_GetItem(arguments, 0);
  PyObject* plain = python->PyTuple_GetItem(arguments, 1);
  if (original == nullptr || plain == nullptr) return nullptr;
  return IsPlainFunction(*python, original, plain) ? pyapi::MakeWrapper(*python, &backward_method, original)
                                                   : None();
}

PyObject* TorchSays(PyObject*, PyObject* arguments) {
  TheTorchTracer().Say(TextAt(arguments, 0));
  return None();
}

PyObject* TraceNext(PyObject*, PyObject*) {
  TheTorchTracer().TraceNext();
  return None();
}

PyObject* LooksAtAll(PyObject*, PyObject*) { return Bool(TorchTracer::looking() || TorchTracer::sampling()); }

PyObject* StepNumber(PyObject*, PyObject*) { return python->PyLong_FromLongLong(TheTorchTracer().step()); }

PyObject* NumberIs(PyObject*, PyObject* arguments) {
  PyObject* number = python->PyTuple_GetItem(arguments, 0);
  int overflow = 0;
  const long long step = number == nullptr ? 0 : python->PyLong_AsLongLongAndOverflow(number, &overflow);
  python->PyErr_Clear();
  if (!forked) TheTorchTracer().NumberIs(step);
  return None();
}

PyObject* Step(PyObject*, PyObject* arguments) {
  PyObject* number = python->PyTuple_GetItem(arguments, 0);
  int overflow = 0;
  const long long step = number == nullptr ? 0 : python->PyLong_AsLongLongAndOverflow(number, &overflow);
  python->PyErr_Clear();
  if (!forked) TheTorchTracer().StepBegins(step);
  return None();
}

std::array methods{
    PyMethodDef{"torch_start", reinterpret_cast<void*>(&TorchStart), kMethVarargs, nullptr},
    PyMethodDef{"torch_around", reinterpret_cast<void*>(&TorchAround), kMethVarargs, nullptr},
    PyMethodDef{"torch_stop", reinterpret_cast<void*>(&TorchStop), kMethNoargs, nullptr},
    PyMethodDef{"torch_name", reinterpret_cast<void*>(&TorchName), kMethVarargs, nullptr},
    PyMethodDef{"torch_forget", reinterpret_cast<void*>(&TorchForget), kMethVarargs, nullptr},
    PyMethodDef{"torch_says", reinterpret_cast<void*>(&TorchSays), kMethVarargs, nullptr},
    PyMethodDef{"torch_trace_next", reinterpret_cast<void*>(&TraceNext), kMethNoargs, nullptr},
    PyMethodDef{"torch_looks_at_all", reinterpret_cast<void*>(&LooksAtAll), kMethNoargs, nullptr},
    PyMethodDef{"torch_step", reinterpret_cast<void*>(&StepNumber), kMethNoargs, nullptr},
    PyMethodDef{"optimizer_begins", reinterpret_cast<void*>(&OptimizerBegins), kMethFastcall, nullptr},
    PyMethodDef{"optimizer_ended", reinterpret_cast<void*>(&OptimizerEnded), kMethFastcall, nullptr},
    PyMethodDef{"update_begins", reinterpret_cast<void*>(&UpdateBegins), kMethFastcall, nullptr},
    PyMethodDef{"update_ended", reinterpret_cast<void*>(&UpdateEnded), kMethFastcall, nullptr},
    PyMethodDef{"pass_begins", reinterpret_cast<void*>(&PassBegins), kMethFastcall, nullptr},
    PyMethodDef{"pass_ended", reinterpret_cast<void*>(&PassEnded), kMethFastcall, nullptr},
    PyMethodDef{"torch_number_is", reinterpret_cast<void*>(&NumberIs), kMethVarargs, nullptr},
    PyMethodDef{"torch_wrap_backward", reinterpret_cast<void*>(&TorchWrapBackward), kMethVarargs, nullptr},
};
PyMethodDef step_method{"step", reinterpret_cast<void*>(&Step), kMethVarargs, "step(number)"};

bool Add(const PythonApi& api, PyMethodDef* method, PyObject* dict) {
  python = &api;
  return pyapi::AddFunction(api, dict, method, &no_data);
}

}  // namespace

bool AddTorchFunctions(const PythonApi& api, PyObject* dict) {
  constexpr int kFirstWithVectorcall = 308;
  const bool possible = api.VersionNumber() >= kFirstWithVectorcall && api.HasGil();
  PyObject* flag = possible ? api._Py_TrueStruct : api._Py_FalseStruct;
  if (api.PyDict_SetItemString(dict, "torch_possible", flag) != 0) return false;
  for (PyMethodDef& method : methods) {
    const bool added = possible ? Add(api, &method, dict)
                                : api.PyDict_SetItemString(dict, method.name, api._Py_NoneStruct) == 0;
    if (!added) return false;
  }
  return true;
}

bool AddStepFunction(const PythonApi& api, PyObject* dict) { return Add(api, &step_method, dict); }

void StopTorch(const PythonApi& api) {
  python = &api;
  TheTorchTracer().calls().Remove(api);
  next_batch.Remove(api);
  TheTorchTracer().Stop();
}

void ForgetTorchInForkedChild() { forked = true; }

}  // namespace probing::torch
