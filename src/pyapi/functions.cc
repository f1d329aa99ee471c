#include "pyapi/functions.h"

#include <atomic>

#include "pyapi/ref.h"

namespace probing::pyapi {
namespace {

constexpr char kCapsuleName[] = "probing";

std::atomic<int> alive{0};
std::atomic<void (*)()> when_gone{nullptr};
std::atomic<bool> made{false};
std::atomic<bool> native_code{false};
const PythonApi* python = nullptr;  // set before the first function exists

void OnFunctionGone(PyObject*) {
  const CallInside inside;  // which looks whether this was the last one
  alive.fetch_sub(1);
}

void OnWrapperGone(PyObject* capsule) {
  {
    const Ref original =
        Ref::New(*python, static_cast<PyObject*>(python->PyCapsule_GetPointer(capsule, kCapsuleName)));
  }
  OnFunctionGone(capsule);
}

PyObject* MakeWithCapsule(const PythonApi& api, PyMethodDef* method, void* data, void (*gone)(PyObject*),
                          PyObject* module) {
  python = &api;
  made.store(true);
  const Ref capsule = Ref::New(api, api.PyCapsule_New(data, kCapsuleName, gone));
  if (!capsule) return nullptr;
  alive.fetch_add(api.HasGil() ? 1 : 1'000'000);
  return api.PyCFunction_NewEx(method, capsule.get(), module);
}

}  // namespace

PyObject* MakeFunction(const PythonApi& api, PyMethodDef* method, void* data) {
  return MakeWithCapsule(api, method, data, &OnFunctionGone, nullptr);
}

PyObject* MakeWrapper(const PythonApi& api, PyMethodDef* method, PyObject* original) {
  const Ref module = Ref::New(api, api.PyObject_GetAttrString(original, "__module__"));
  if (!module) api.PyErr_Clear();
  // Given back by the capsule, also when there is no function in the end.
  return MakeWithCapsule(api, method, NewRef(api, original), &OnWrapperGone, module.get());
}

void* FunctionData(const PythonApi& api, PyObject* self) {
  return api.PyCapsule_GetPointer(self, kCapsuleName);
}

bool AddFunction(const PythonApi& api, PyObject* dict, PyMethodDef* method, void* data) {
  const Ref function = Ref::New(api, MakeFunction(api, method, data));
  return function && api.PyDict_SetItemString(dict, method->name, function.get()) == 0;
}

bool FunctionsAlive() { return alive.load() != 0; }

void CallInside::WhenAllAreGone(void (*last)()) {
  when_gone.store(last);
  awaits_last_.store(last != nullptr);
  TellIfLast();  // the last may have gone just before
}

void CallInside::TellIfLast() {
  if (Any() || FunctionsAlive()) return;
  if (auto* const last = when_gone.exchange(nullptr)) last();
}

bool FunctionsMade() { return made.load(); }

void KeepForNativeCode() {
  if (native_code.exchange(true)) return;
  alive.fetch_add(1);
  made.store(true);
}

bool NativeCodeHasTables() { return native_code.load(); }

}  // namespace probing::pyapi
