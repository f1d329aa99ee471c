#include "hooks/hooks.h"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "hooks/memory_row.h"
#include "hooks/native.h"
#include "pyapi/embedded.h"
#include "pyapi/exit_guard.h"
#include "pyapi/functions.h"
#include "pyapi/gil.h"
#include "pyapi/heap.h"
#include "pyapi/left_behind.h"
#include "pyapi/ref.h"
#include "record/overhead.h"
#include "record/recorder.h"
#include "table/written_rows.h"
#include "torch/flight_recorder.h"
#include "torch/job_place.h"
#include "torch/native.h"

namespace probing::hooks {

using pyapi::EmbeddedModules;
using pyapi::NewNone;
using pyapi::NewRef;
using pyapi::PyMethodDef;
using pyapi::Ref;

namespace {

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

bool AddNative(const PythonApi& api, PyObject* dict);
constexpr pyapi::NativeContent kContents[] = {{"native", &AddNative}, {"heap", &pyapi::AddHeapFunctions}};
EmbeddedModules embedded(kContents);
bool complete = false;  // all that hooks.py needs is there

// Calls a function of hooks.py. True when it returned True; no exception is left.
struct Outcome {
  bool called = false;
  bool value = false;
};
Outcome CallHook(const PythonApi& api, const char* function, PyObject* argument) {
  const Ref result = embedded.Call(api, "hooks", function, argument);
  return {static_cast<bool>(result), result.get() == api._Py_TrueStruct};
}

// ── the collector ──

struct GcHook {
  const PythonApi* api = nullptr;
  record::TableHandle* table = nullptr;
  std::int64_t started_ns = 0;
  std::int64_t started_wall_ns = 0;
};
GcHook gc;

std::optional<std::int64_t> IntegerOf(const PythonApi& api, PyObject* info, const char* key) {
  PyObject* number = api.PyDict_GetItemString(info, key);
  int overflow = 0;
  if (number == nullptr) return std::nullopt;
  return api.PyLong_AsLongLongAndOverflow(number, &overflow);
}

// gc.callbacks: (phase, info). Runs in whichever thread collects.
PyObject* OnGc(PyObject*, PyObject* arguments) {
  const record::Measured measured(record::Part::kGc);
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
    gc.started_ns = 0;
    gc.table->Write(table::PythonGcRow{.timestamp = gc.started_wall_ns,
                                       .generation = IntegerOf(api, info, "generation"),
                                       .duration_ms = duration_ms,
                                       .collected = IntegerOf(api, info, "collected"),
                                       .uncollectable = IntegerOf(api, info, "uncollectable")});
    if (Hooks::ModulesChanged(api)) Hooks::LookAtModules(api);
  }
  api.PyErr_Clear();
  return NewNone(api);
}

PyMethodDef gc_event{"gc_event", reinterpret_cast<void*>(&OnGc), pyapi::kMethVarargs,
                     "of Probing: python.gc"};

// (group, seq): collectives.py has written this one.
PyObject* OwnCollective(PyObject*, PyObject* arguments) {
  const PythonApi& api = *gc.api;
  PyObject* group = api.PyTuple_GetItem(arguments, 0);
  PyObject* seq = api.PyTuple_GetItem(arguments, 1);
  const char* text =
      group != nullptr && seq != nullptr ? api.PyUnicode_AsUTF8AndSize(group, nullptr) : nullptr;
  int overflow = 0;
  if (text != nullptr) torch::NoteOwnCollective(text, api.PyLong_AsLongLongAndOverflow(seq, &overflow));
  api.PyErr_Clear();
  return NewNone(api);
}
PyMethodDef own_collective{"own_collective", reinterpret_cast<void*>(&OwnCollective), pyapi::kMethVarargs,
                           nullptr};

bool AddEvents(const PythonApi& api, PyObject* dict) {
  auto table = record::Recorder::FindTable(table::PythonGcRow::kTable, {});
  if (!table.ok()) return false;
  gc = {&api, *table};
  for (PyMethodDef* method : {&gc_event, &own_collective}) {
    if (!pyapi::AddFunction(api, dict, method, &gc)) return false;
  }
  return true;
}

bool AddNative(const PythonApi& api, PyObject* dict) {
  pyapi::GuardExit(api);
  PyObject* cell = pyapi::ExitCell(api);
  return pyapi::OfferLeftBehind(api, dict) && cell != nullptr &&
         api.PyDict_SetItemString(dict, "exit_cell", cell) == 0 && AddNativeFunctions(api, dict) &&
         AddEvents(api, dict) && torch::AddTorchFunctions(api, dict);
}

// Loads one module. True while there are more; no exception is left.
bool LoadOne(const PythonApi& api) {
  if (complete) return false;
  for (const char* module : {"job_place", "hooks"}) {
    const auto progress = embedded.LoadNext(api, module);
    if (progress == EmbeddedModules::Progress::kMore) return true;
    if (progress == EmbeddedModules::Progress::kLoaded) continue;
    api.PyErr_Clear();
    return false;
  }
  complete = embedded.AddLoader(api);
  if (!complete) api.PyErr_Clear();
  const Ref before = Ref::New(api, modules.exchange(NewRef(api, api.PyImport_GetModuleDict())));
  return false;
}

void LookAtPlace(const PythonApi& api) {
  PyObject* place = embedded.Find(api, "job_place", "place_in_job");
  if (place != nullptr) torch::NoteJobPlace(api, place);
}

bool Prepare(const PythonApi& api) {
  while (LoadOne(api)) {
  }
  return complete;
}

}  // namespace

bool Hooks::LoadSome(const PythonApi& api) {
  const OneAtATime mine;
  return mine && api.type_offset != 0 && LoadOne(api);
}

bool Hooks::Configure(const PythonApi& api, const std::string& words) {
  const OneAtATime mine;
  if (!mine || api.type_offset == 0) return false;
  if (!complete && words == "none") return true;
  if (!Prepare(api)) return false;
  modules_seen.store(EntriesOf(api, modules.load()));
  const Ref text =
      Ref::New(api, api.PyUnicode_FromStringAndSize(words.data(), static_cast<std::ptrdiff_t>(words.size())));
  const Outcome outcome = CallHook(api, "configure", text.get());
  look_again.store(outcome.value);
  if (outcome.called) running.store(HashOf(words));
  return outcome.called;
}

bool Hooks::Remove(const PythonApi& api) {
  const OneAtATime mine;
  if (!mine) return false;
  if (embedded.empty()) return true;
  (void)CallHook(api, "remove", nullptr);
  torch::StopTorch(api);  // whatever became of the Python half
  running.store(0);
  complete = false;
  const Ref dict = Ref::New(api, modules.exchange(nullptr));
  embedded.Forget(api);
  return true;
}

bool Hooks::ModulesChanged(const PythonApi& api) {
  const PyObject* dict = modules.load();
  return dict != nullptr && (look_again.load() || EntriesOf(api, dict) != modules_seen.load());
}

void Hooks::LookAtModules(const PythonApi& api) {
  const OneAtATime mine;
  if (!mine || !complete) return;
  modules_seen.store(EntriesOf(api, modules.load()));
  look_again.store(CallHook(api, "modules_changed", nullptr).value);
  LookAtPlace(api);
}

void Hooks::WriteMemory(const PythonApi& api) {
  const OneAtATime mine;
  if (!mine || !complete) return;
  PyObject* counts = embedded.Find(api, "hooks", "memory_counts");
  if (counts != nullptr) WriteMemoryRow(api, counts);
  LookAtPlace(api);
}

void Hooks::LendCensus(const PythonApi& api, PyObject* dict) {
  const OneAtATime mine;
  if (!mine || !complete || dict == nullptr) return;
  for (const char* name : {"census_kept", "birthplaces", "looked_at"}) {
    PyObject* kept = embedded.Find(api, "census", name);
    if (kept == nullptr || api.PyDict_SetItemString(dict, name, kept) != 0) api.PyErr_Clear();
  }
}

bool Hooks::Run(const std::string& words) { return running.load() == HashOf(words); }

void Hooks::InForkedChild() {
  busy.store(false);
  record::Overhead::Reset();
  torch::ForgetTorchInForkedChild();
  torch::ForgetJobPlaceInForkedChild();
  torch::ForgetCollectivesInForkedChild();
  pyapi::ForgetGilInForkedChild();
}

}  // namespace probing::hooks
