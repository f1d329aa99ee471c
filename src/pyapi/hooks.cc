#include "pyapi/hooks.h"

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "pyapi/census_source.h"
#include "pyapi/collectives_source.h"
#include "pyapi/describe_source.h"
#include "pyapi/exit_guard.h"
#include "pyapi/expr_places_source.h"
#include "pyapi/exprs_source.h"
#include "pyapi/flight_recorder.h"
#include "pyapi/forget.h"
#include "pyapi/frameworks_source.h"
#include "pyapi/functions.h"
#include "pyapi/gil.h"
#include "pyapi/heap.h"
#include "pyapi/heap_source.h"
#include "pyapi/hooks_source.h"
#include "pyapi/job_place.h"
#include "pyapi/kinds_source.h"
#include "pyapi/memory_row.h"
#include "pyapi/native.h"
#include "pyapi/nonfinite_source.h"
#include "pyapi/overhead.h"
#include "pyapi/recompile_source.h"
#include "pyapi/run_source.h"
#include "pyapi/saves_source.h"
#include "pyapi/torch_native.h"
#include "pyapi/torch_source.h"

namespace probing::pyapi {
namespace {

PyObject* names = nullptr;                // the namespace of hooks.py
std::atomic<PyObject*> modules{nullptr};  // sys.modules; a reference of ours
std::atomic<std::ptrdiff_t> modules_seen{0};
std::atomic<bool> look_again{false};

// What runs, as a number that any thread can read.
std::size_t HashOf(std::string_view words) {
  return words == "none" ? 0 : std::hash<std::string_view>()(words);
}
std::atomic<std::size_t> running{0};

// Python code may run inside of any Python code, through the collector. The hooks' own is run by one
// at a time, and who comes second does not wait.
std::atomic<bool> busy{false};
class OneAtATime {
 public:
  OneAtATime() : mine_(!busy.exchange(true)) {}
  ~OneAtATime() {
    if (mine_) busy.store(false);
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;
  explicit operator bool() const { return mine_; }

 private:
  const bool mine_;
};

// How many entries a dict has: the field behind the object's head since 3.6.
std::ptrdiff_t EntriesOf(const PythonApi& api, const PyObject* dict) {
  const char* field = reinterpret_cast<const char*>(dict) + api.type_offset + sizeof(void*);
  return __atomic_load_n(reinterpret_cast<const std::ptrdiff_t*>(field), __ATOMIC_RELAXED);
}

// Calls names[function](argument). True when it returned True; no exception is left.
struct Outcome {
  bool called = false;
  bool value = false;
};
Outcome CallHook(const PythonApi& api, const char* function, PyObject* argument) {
  PyObject* callable = api.PyDict_GetItemString(names, function);
  if (callable == nullptr) return {};
  PyObject* result = api.PyObject_CallFunctionObjArgs(callable, argument, nullptr);
  const Outcome outcome{result != nullptr, result == api._Py_TrueStruct};
  if (result == nullptr) {
    api.PyErr_Clear();
  } else {
    api.Py_DecRef(result);
  }
  return outcome;
}

// ── the collector ──

struct GcHook {
  const PythonApi* api = nullptr;
  TableHandle* table = nullptr;
  std::int64_t started_ns = 0;
  std::int64_t started_wall_ns = 0;
};
GcHook gc;

ring::Cell IntegerOf(const PythonApi& api, PyObject* info, const char* key) {
  PyObject* number = api.PyDict_GetItemString(info, key);
  int overflow = 0;
  return number == nullptr ? ring::Cell::Null()
                           : ring::Cell::Int(api.PyLong_AsLongLongAndOverflow(number, &overflow));
}

// gc.callbacks: (phase, info). Runs in whichever thread collects.
PyObject* OnGc(PyObject*, PyObject* arguments) {
  const Measured measured(Part::kGc);
  const PythonApi& api = *gc.api;
  PyObject* phase = api.PyTuple_GetItem(arguments, 0);
  PyObject* info = api.PyTuple_GetItem(arguments, 1);
  const char* text =
      phase != nullptr && info != nullptr ? api.PyUnicode_AsUTF8AndSize(phase, nullptr) : nullptr;
  if (text != nullptr && std::string_view(text) == "start") {
    gc.started_ns = MonotonicNs();
    gc.started_wall_ns = WallNs();
  } else if (text != nullptr && gc.started_ns != 0) {
    const double duration_ms = static_cast<double>(MonotonicNs() - gc.started_ns) / 1e6;
    const ring::Cell cells[] = {
        ring::Cell::Timestamp(gc.started_wall_ns), IntegerOf(api, info, "generation"),
        ring::Cell::Double(duration_ms),           IntegerOf(api, info, "collected"),
        IntegerOf(api, info, "uncollectable"),
    };
    gc.started_ns = 0;
    gc.table->Write(cells, std::size(cells));
    if (Hooks::ModulesChanged(api)) Hooks::LookAtModules(api);
  }
  api.PyErr_Clear();
  api.Py_IncRef(api._Py_NoneStruct);
  return api._Py_NoneStruct;
}

PyMethodDef gc_event{"gc_event", reinterpret_cast<void*>(&OnGc), kMethVarargs, "of Probing: python.gc"};

// What exprs.py runs before Python 3.12, where it is needed. Every visit to a process would make and drop it
// otherwise.
PyObject* ExprPlacesSource(PyObject*, PyObject*) {
  const std::string text = std::string(kRecompileSource) + kExprPlacesSource;
  return gc.api->PyUnicode_FromStringAndSize(text.data(), static_cast<std::ptrdiff_t>(text.size()));
}
PyMethodDef expr_places_source{"expr_places_source", reinterpret_cast<void*>(&ExprPlacesSource), kMethNoargs,
                               nullptr};

// (group, seq): collectives.py has written this one.
PyObject* OwnCollective(PyObject*, PyObject* arguments) {
  const PythonApi& api = *gc.api;
  PyObject* group = api.PyTuple_GetItem(arguments, 0);
  PyObject* seq = api.PyTuple_GetItem(arguments, 1);
  const char* text =
      group != nullptr && seq != nullptr ? api.PyUnicode_AsUTF8AndSize(group, nullptr) : nullptr;
  int overflow = 0;
  if (text != nullptr) NoteOwnCollective(text, api.PyLong_AsLongLongAndOverflow(seq, &overflow));
  api.PyErr_Clear();
  api.Py_IncRef(api._Py_NoneStruct);
  return api._Py_NoneStruct;
}
PyMethodDef own_collective{"own_collective", reinterpret_cast<void*>(&OwnCollective), kMethVarargs, nullptr};

bool AddEvents(const PythonApi& api, PyObject* dict) {
  auto table = Recorder::FindTable("python.gc", {});
  if (!table.ok()) return false;
  gc = {&api, *table};
  for (PyMethodDef* method : {&gc_event, &expr_places_source, &own_collective}) {
    if (!AddFunction(api, dict, method, &gc)) return false;
  }
  return true;
}

// Compiling all of hooks.py takes some milliseconds, and the job waits meanwhile if it wants the GIL. So
// it is done part by part: each begins with a line like this.
constexpr std::string_view kNextPart = "\n# ── ";

constexpr std::array<std::string_view, 10> kSources{
    kHooksSource, kExprsSource,     kCollectivesSource, kSavesSource,  kHeapSource,
    kKindsSource, kNonfiniteSource, kFrameworksSource,  kCensusSource, kTorchSource};
PyObject* loading = nullptr;  // the namespace while parts are missing
std::size_t source = 0;       // of kSources, which is being loaded
std::size_t loaded = 0;       // bytes of it

// Loads one part. True while there are more; at the end `names` is set, unless something failed.
bool LoadPart(const PythonApi& api) {
  if (names != nullptr) return false;
  bool good = true;
  if (loading == nullptr) {
    loading = api.PyDict_New();
    if (loading == nullptr) return false;
    source = loaded = 0;
    api.PyDict_SetItemString(loading, "__builtins__", api.PyEval_GetBuiltins());
    GuardExit(api);
    PyObject* cell = ExitCell(api);
    good = cell != nullptr && api.PyDict_SetItemString(loading, "exit_cell", cell) == 0;
    good = good && AddNativeFunctions(api, loading) && AddEvents(api, loading) &&
           AddTorchFunctions(api, loading) && RunSource(api, kDescribeSource, loading);
  } else {
    const std::string_view rest = kSources[source].substr(loaded);
    const std::string part(rest.substr(0, rest.find(kNextPart, 1)));
    good = RunSource(api, part.c_str(), loading);
    loaded += part.size();
    if (loaded >= kSources[source].size()) {
      ++source;
      loaded = 0;
    }
  }
  const bool complete = good && source == kSources.size();
  if (complete && !AddHeapFunctions(api, loading)) api.PyErr_Clear();  // heap.py has others
  if (good && !complete) return true;
  PyObject* made = std::exchange(loading, nullptr);
  if (complete) {
    names = made;
    PyObject* dict = api.PyImport_GetModuleDict();
    api.Py_IncRef(dict);
    modules.store(dict);
  } else {
    api.PyErr_Clear();
    api.PyDict_Clear(made);
    api.Py_DecRef(made);
  }
  return false;
}

void LookAtPlace(const PythonApi& api) {
  PyObject* place = api.PyDict_GetItemString(names, "place_in_job");
  if (place != nullptr) NoteJobPlace(api, place);
}

bool Prepare(const PythonApi& api) {
  while (LoadPart(api)) {
  }
  return names != nullptr;
}

}  // namespace

bool Hooks::LoadSome(const PythonApi& api) {
  const OneAtATime mine;
  return mine && api.type_offset != 0 && LoadPart(api);
}

bool Hooks::Configure(const PythonApi& api, const std::string& words) {
  const OneAtATime mine;
  if (!mine || api.type_offset == 0) return false;
  if (names == nullptr && words == "none") return true;
  if (!Prepare(api)) {
    api.PyErr_Clear();
    return false;
  }
  modules_seen.store(EntriesOf(api, modules.load()));
  PyObject* text = api.PyUnicode_FromStringAndSize(words.data(), static_cast<std::ptrdiff_t>(words.size()));
  const Outcome outcome = CallHook(api, "configure", text);
  if (text != nullptr) api.Py_DecRef(text);
  look_again.store(outcome.value);
  if (outcome.called) running.store(HashOf(words));
  return outcome.called;
}

bool Hooks::Remove(const PythonApi& api) {
  const OneAtATime mine;
  if (!mine) return false;
  if (loading != nullptr) (void)Prepare(api);  // only what is complete can be taken out
  if (names == nullptr) return true;
  (void)CallHook(api, "remove", nullptr);
  StopTorch(api);  // whatever became of the Python half
  running.store(0);
  if (PyObject* dict = modules.exchange(nullptr)) api.Py_DecRef(dict);
  PyObject* gone = names;
  names = nullptr;
  ForgetNamespace(api, gone);
  api.Py_DecRef(gone);
  return true;
}

bool Hooks::ModulesChanged(const PythonApi& api) {
  const PyObject* dict = modules.load();
  return dict != nullptr && (look_again.load() || EntriesOf(api, dict) != modules_seen.load());
}

void Hooks::LookAtModules(const PythonApi& api) {
  const OneAtATime mine;
  if (!mine || names == nullptr) return;
  modules_seen.store(EntriesOf(api, modules.load()));
  look_again.store(CallHook(api, "modules_changed", nullptr).value);
  LookAtPlace(api);
}

void Hooks::WriteMemory(const PythonApi& api) {
  const OneAtATime mine;
  if (!mine || names == nullptr) return;
  PyObject* counts = api.PyDict_GetItemString(names, "memory_counts");
  if (counts != nullptr) WriteMemoryRow(api, counts);
  LookAtPlace(api);
}

void Hooks::LendCensus(const PythonApi& api, PyObject* dict) {
  const OneAtATime mine;
  if (!mine || names == nullptr) return;
  for (const char* name : {"census_kept", "birthplaces", "looked_at"}) {
    PyObject* kept = api.PyDict_GetItemString(names, name);
    if (kept == nullptr || api.PyDict_SetItemString(dict, name, kept) != 0) api.PyErr_Clear();
  }
}

bool Hooks::Run(const std::string& words) { return running.load() == HashOf(words); }

void Hooks::InForkedChild() {
  busy.store(false);
  loading = nullptr;  // our thread may have been in the middle of it
  Overhead::Reset();
  ForgetTorchInForkedChild();
  ForgetJobPlaceInForkedChild();
  ForgetCollectivesInForkedChild();
  ForgetGilInForkedChild();
}

}  // namespace probing::pyapi
