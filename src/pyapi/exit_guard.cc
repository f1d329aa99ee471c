#include "pyapi/exit_guard.h"

#include <atomic>
#include <utility>

#include "pyapi/exit_guard_source.h"
#include "pyapi/forget.h"
#include "pyapi/functions.h"
#include "pyapi/gil.h"
#include "pyapi/left_behind.h"
#include "pyapi/run_source.h"

namespace probing::pyapi {
namespace {

std::atomic<bool> settled{false};  // it is there, or will never be
bool begun = false;
PyObject* names = nullptr;  // the namespace of exit_guard.py
const PythonApi* python = nullptr;

PyObject* OnExit(PyObject*, PyObject*) {
  NoMoreGil(*python);
  python->Py_IncRef(python->_Py_NoneStruct);
  return python->_Py_NoneStruct;
}

PyMethodDef at_exit{"at_exit", reinterpret_cast<void*>(&OnExit), kMethNoargs,
                    "of Probing: its threads keep away"};

bool Register(const PythonApi& api) {
  names = api.PyDict_New();
  if (names == nullptr) return false;
  api.PyDict_SetItemString(names, "__builtins__", api.PyEval_GetBuiltins());
  OfferLeftBehind(api, names);
  return AddFunction(api, names, &at_exit, &settled) && RunSource(api, kExitGuardSource, names);
}

}  // namespace

bool ExitIsGuarded() { return settled.load(); }

void GuardExit(const PythonApi& api) {
  // Another thread of ours may be in the middle of it, without the GIL for a moment.
  if (std::exchange(begun, true)) return;
  python = &api;
  if (!Register(api)) {
    api.PyErr_Clear();
    if (names != nullptr) api.Py_DecRef(std::exchange(names, nullptr));
  }
  settled.store(true);
}

PyObject* ExitCell(const PythonApi& api) {
  return names == nullptr ? nullptr : api.PyDict_GetItemString(names, "exit_cell");
}

void RemoveExitGuard(const PythonApi& api) {
  begun = true;
  settled.store(true);
  PyObject* gone = std::exchange(names, nullptr);
  if (gone == nullptr) return;
  PyObject* leave = api.PyDict_GetItemString(gone, "leave");
  PyObject* done = leave == nullptr ? nullptr : api.PyObject_CallFunctionObjArgs(leave, nullptr);
  if (done != nullptr) api.Py_DecRef(done);
  api.PyErr_Clear();
  ForgetNamespace(api, gone);
  api.Py_DecRef(gone);
}

}  // namespace probing::pyapi
