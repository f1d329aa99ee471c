#include "pyapi/functions.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "pyapi/cells.h"
#include "record/overhead.h"

namespace probing::pyapi {

using record::TableHandle;

namespace {

constexpr char kCapsuleName[] = "probing";
constexpr int kFirstWithFastcall = 307;  // 3.6 has one that nobody was to use

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
  python->Py_DecRef(static_cast<PyObject*>(python->PyCapsule_GetPointer(capsule, kCapsuleName)));
  OnFunctionGone(capsule);
}

PyObject* MakeWithCapsule(const PythonApi& api, PyMethodDef* method, void* data, void (*gone)(PyObject*),
                          PyObject* module) {
  python = &api;
  made.store(true);
  PyObject* capsule = api.PyCapsule_New(data, kCapsuleName, gone);
  if (capsule == nullptr) return nullptr;
  alive.fetch_add(api.HasGil() ? 1 : 1'000'000);
  PyObject* function = api.PyCFunction_NewEx(method, capsule, module);
  api.Py_DecRef(capsule);  // the function has it
  return function;
}

bool RaiseTooMany(const TableHandle& table, std::ptrdiff_t count) {
  const std::string message = table.name() + " has " + std::to_string(table.columns().size()) + " columns; " +
                              std::to_string(count) + " values were given";
  python->PyErr_SetString(*python->PyExc_TypeError, message.c_str());
  return false;
}

// A hot path: no lock, and no allocation for values of the usual types.
PyObject* AppendValues(PyObject* self, PyObject* const* values, std::ptrdiff_t count) {
  const PythonApi& api = *python;
  auto* table = static_cast<TableHandle*>(api.PyCapsule_GetPointer(self, kCapsuleName));
  const std::vector<ring::Column>& columns = table->columns();
  if (static_cast<std::size_t>(count) > columns.size()) {
    RaiseTooMany(*table, count);
    return nullptr;
  }
  ring::Cell cells[ring::kMaxColumns];
  Borrowed borrowed(api);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    if (!ToCell(api, values[i], columns[static_cast<std::size_t>(i)], &cells[i], &borrowed)) return nullptr;
  }
  const ring::WriteStatus status = table->Write(cells, static_cast<std::uint32_t>(count));
  PyObject* answer = status == ring::WriteStatus::kWritten ? api._Py_TrueStruct : api._Py_FalseStruct;
  api.Py_IncRef(answer);
  return answer;
}

PyObject* AppendRow(PyObject* self, PyObject* const* values, std::ptrdiff_t count) {
  if (!record::Overhead::CountRow()) [[likely]]
    return AppendValues(self, values, count);
  const std::int64_t begun_ns = MonotonicNs();
  PyObject* answer = AppendValues(self, values, count);
  record::Overhead::AddTimedRow(MonotonicNs() - begun_ns);
  return answer;
}

PyObject* AppendTuple(PyObject* self, PyObject* arguments) {
  PyObject* values[ring::kMaxColumns];
  const std::ptrdiff_t count = python->PyTuple_Size(arguments);
  for (std::ptrdiff_t i = 0; i < std::min<std::ptrdiff_t>(count, ring::kMaxColumns); ++i) {
    values[i] = python->PyTuple_GetItem(arguments, i);
  }
  return AppendRow(self, values, count);
}

constexpr char kAppendDoc[] =
    "append(timestamp, *values) -> bool\n\nAdds a row; tells whether it was stored.";
PyMethodDef append_row{"append", reinterpret_cast<void*>(&AppendRow), kMethFastcall, kAppendDoc};
PyMethodDef append_tuple{"append", reinterpret_cast<void*>(&AppendTuple), kMethVarargs, kAppendDoc};

}  // namespace

PyObject* MakeFunction(const PythonApi& api, PyMethodDef* method, void* data) {
  return MakeWithCapsule(api, method, data, &OnFunctionGone, nullptr);
}

PyObject* MakeWrapper(const PythonApi& api, PyMethodDef* method, PyObject* original) {
  PyObject* module = api.PyObject_GetAttrString(original, "__module__");
  if (module == nullptr) api.PyErr_Clear();
  api.Py_IncRef(original);
  // Given back by the capsule, also when there is no function in the end.
  PyObject* wrapper = MakeWithCapsule(api, method, original, &OnWrapperGone, module);
  if (module != nullptr) api.Py_DecRef(module);
  return wrapper;
}

void* FunctionData(const PythonApi& api, PyObject* self) {
  return api.PyCapsule_GetPointer(self, kCapsuleName);
}

bool AddFunction(const PythonApi& api, PyObject* dict, PyMethodDef* method, void* data) {
  PyObject* function = MakeFunction(api, method, data);
  if (function == nullptr) return false;
  const bool added = api.PyDict_SetItemString(dict, method->name, function) == 0;
  api.Py_DecRef(function);
  return added;
}

PyObject* MakeAppend(const PythonApi& api, TableHandle* table) {
  return MakeFunction(api, api.VersionNumber() >= kFirstWithFastcall ? &append_row : &append_tuple, table);
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
