#include "torch/kineto.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

#include "pyapi/functions.h"
#include "pyapi/ref.h"

namespace probing::torch {

using pyapi::PyMethodDef;

namespace {

constexpr int kQuiet = 100;  // QUIET_KINETO of profile.py
constexpr const char* kLibrary = "libtorch_cpu.so";

// How libkineto.h declares the one object of its class, in all versions: only read here.
struct LibkinetoApi {
  void* config_loader;
  void* profiler;  // null until it is used for the first time
  void* client;
};

using GetApi = LibkinetoApi* (*)();
using RegisterClient = void (*)(LibkinetoApi* api, void* client);

const PythonApi* python = nullptr;
char no_data;  // a capsule wants some address

// Kineto's own level: an std::atomic<int>, or nothing when it does not look like one.
std::atomic<int>* FindLevel(void* library) {
  void* found = dlsym(library, "_ZN9libkineto6Logger14severityLevel_E");
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (found == nullptr ||
      dladdr1(found, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0)
    return nullptr;
  return symbol != nullptr && symbol->st_size == sizeof(int) ? static_cast<std::atomic<int>*>(found)
                                                             : nullptr;
}

// The same client once more, by this thread: then nothing is wrong with the first use on it.
void RegisterOnThisThread(void* library) {
  const auto get_api = reinterpret_cast<GetApi>(dlsym(library, "_ZN9libkineto3apiEv"));
  const auto register_client = reinterpret_cast<RegisterClient>(
      dlsym(library, "_ZN9libkineto12LibkinetoApi14registerClientEPNS_15ClientInterfaceE"));
  if (get_api == nullptr || register_client == nullptr) return;
  LibkinetoApi* const api = get_api();
  if (api->profiler == nullptr && api->client != nullptr) register_client(api, api->client);
}

PyObject* None() { return pyapi::NewNone(*python); }

PyObject* QuietKineto(PyObject*, PyObject* arguments) {
  void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr || python->PyTuple_Size(arguments) != 1) return None();
  std::atomic<int>* const level = FindLevel(library);
  PyObject* const wanted = python->PyTuple_GetItem(arguments, 0);
  PyObject* answer = nullptr;
  if (level == nullptr) {
    answer = None();
  } else if (wanted == python->_Py_NoneStruct) {
    RegisterOnThisThread(library);
    answer = python->PyLong_FromLongLong(level->exchange(kQuiet));
  } else {
    int overflow = 0;
    level->store(static_cast<int>(python->PyLong_AsLongLongAndOverflow(wanted, &overflow)));
    answer = None();
  }
  dlclose(library);  // our count only
  return answer;
}

PyMethodDef method{"quiet_kineto", reinterpret_cast<void*>(&QuietKineto), pyapi::kMethVarargs, "of Probing"};

}  // namespace

bool AddKinetoFunction(const PythonApi& api, PyObject* dict) {
  python = &api;
  return pyapi::AddFunction(api, dict, &method, &no_data);
}

}  // namespace probing::torch
