#include "pyapi/exit_guard.h"

#include <atomic>
#include <utility>

#include "pyapi/embedded.h"
#include "pyapi/functions.h"
#include "pyapi/gil.h"
#include "pyapi/left_behind.h"
#include "pyapi/ref.h"

namespace probing::pyapi {
namespace {

std::atomic<bool> settled{false};  // it is there, or will never be
bool begun = false;
const PythonApi* python = nullptr;

PyObject* OnExit(PyObject*, PyObject*) {
  NoMoreGil(*python);
  return NewNone(*python);
}

PyMethodDef at_exit{"at_exit", reinterpret_cast<void*>(&OnExit), kMethNoargs,
                    "of Probing: its threads keep away"};

bool AddNative(const PythonApi& api, PyObject* names) {
  return OfferLeftBehind(api, names) && AddFunction(api, names, &at_exit, &settled);
}
constexpr NativeContent kContents[] = {{"native", &AddNative}};
EmbeddedModules modules(kContents);

}  // namespace

bool ExitIsGuarded() { return settled.load(); }

void GuardExit(const PythonApi& api) {
  // Another thread of ours may be in the middle of it, without the GIL for a moment.
  if (std::exchange(begun, true)) return;
  python = &api;
  if (!modules.Load(api, "exit_guard")) {
    api.PyErr_Clear();
    modules.Forget(api);
  }
  settled.store(true);
}

PyObject* ExitCell(const PythonApi& api) { return modules.Find(api, "exit_guard", "exit_cell"); }

void RemoveExitGuard(const PythonApi& api) {
  begun = true;
  settled.store(true);
  (void)modules.Call(api, "exit_guard", "leave");
  modules.Forget(api);
}

}  // namespace probing::pyapi
