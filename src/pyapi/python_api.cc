#include "pyapi/python_api.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdlib>

namespace probing::pyapi {
namespace {

// Where `Py_IsInitialized` can be found: usually everywhere, but an embedding program may have
// loaded its libpython with RTLD_LOCAL, out of sight of the global scope.
void* FindLibrary() {
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr) return RTLD_DEFAULT;
  struct Search {
    void* found = nullptr;
  } search;
  const auto look = [](dl_phdr_info* info, std::size_t, void* data) {
    void* library = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return 0;
    const bool has_python = dlsym(library, "Py_IsInitialized") != nullptr;
    // The count goes back at once: whoever loaded it keeps it.
    dlclose(library);
    if (has_python) static_cast<Search*>(data)->found = library;
    return has_python ? 1 : 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

bool Load(PythonApi& api) {
  void* library = FindLibrary();
  if (library == nullptr && dlsym(RTLD_DEFAULT, "Py_IsInitialized") == nullptr) return false;
  bool complete = true;
  const auto find = [&](auto& member, const char* name, bool required) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
    if (required && member == nullptr) complete = false;
  };
#define PROBING_REQUIRED(name) find(api.name, #name, true)
#define PROBING_OPTIONAL(name) find(api.name, #name, false)
  PROBING_REQUIRED(Py_IsInitialized);
  PROBING_REQUIRED(Py_GetVersion);
  PROBING_REQUIRED(PyGILState_Ensure);
  PROBING_REQUIRED(PyGILState_Release);
  PROBING_REQUIRED(PyEval_SaveThread);
  PROBING_REQUIRED(PyEval_RestoreThread);
  PROBING_REQUIRED(Py_AddPendingCall);
  PROBING_REQUIRED(PyThreadState_SetAsyncExc);
  PROBING_REQUIRED(PyRun_String);
  PROBING_REQUIRED(PyDict_New);
  PROBING_REQUIRED(PyDict_GetItemString);
  PROBING_REQUIRED(PyDict_SetItemString);
  PROBING_REQUIRED(PyEval_GetBuiltins);
  PROBING_REQUIRED(PyObject_CallFunctionObjArgs);
  PROBING_REQUIRED(PyBytes_FromStringAndSize);
  PROBING_REQUIRED(PyBytes_AsStringAndSize);
  PROBING_REQUIRED(PyLong_FromLongLong);
  PROBING_REQUIRED(PyTuple_GetItem);
  PROBING_REQUIRED(PyErr_Clear);
  PROBING_REQUIRED(Py_DecRef);
  PROBING_REQUIRED(PyExc_KeyboardInterrupt);
  PROBING_OPTIONAL(PyEval_ThreadsInitialized);
  PROBING_OPTIONAL(PyEval_InitThreads);
  PROBING_OPTIONAL(_Py_IsFinalizing);
  PROBING_OPTIONAL(Py_IsFinalizing);
  PROBING_OPTIONAL(PyInterpreterState_Main);
  PROBING_OPTIONAL(_PyEval_SignalReceived);
#undef PROBING_REQUIRED
#undef PROBING_OPTIONAL
  return complete;
}

}  // namespace

bool PythonApi::Usable() const {
  if (Py_IsInitialized() == 0) return false;
  if (Py_IsFinalizing != nullptr) return Py_IsFinalizing() == 0;
  if (_Py_IsFinalizing != nullptr) return _Py_IsFinalizing() == 0;
  return true;
}

std::string PythonApi::Version() const {
  const std::string text = Py_GetVersion();
  return text.substr(0, text.find(' '));
}

int PythonApi::VersionNumber() const {
  const std::string text = Version();
  const std::size_t dot = text.find('.');
  return std::atoi(text.c_str()) * 100 + (dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1));
}

const PythonApi* FindPython() {
  // Filled once and never freed: plain data, so that nothing has to be destroyed at exit.
  static PythonApi api;
  static std::atomic<bool> found{false};
  if (found.load(std::memory_order_acquire)) return &api;
  PythonApi candidate{};
  if (!Load(candidate)) return nullptr;
  api = candidate;
  found.store(true, std::memory_order_release);
  return &api;
}

}  // namespace probing::pyapi
