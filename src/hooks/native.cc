#include "hooks/native.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "hooks/hooks.h"
#include "pyapi/cells.h"
#include "pyapi/functions.h"
#include "pyapi/ref.h"
#include "record/recorder.h"
#include "torch/native.h"

namespace probing::hooks {

using pyapi::PyMethodDef;
using pyapi::Ref;

namespace {

const PythonApi* python = nullptr;
char no_data;  // a capsule wants some address

std::optional<std::string> TextOf(PyObject* object) {
  const bool is_text = object != nullptr && python->TypeOf(object) == python->PyUnicode_Type;
  std::ptrdiff_t size = 0;
  const char* text = is_text ? python->PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  if (text == nullptr) {
    python->PyErr_Clear();
    return std::nullopt;
  }
  return std::string(text, static_cast<std::size_t>(size));
}

PyObject* Raise(PyObject* kind, const std::string& message) {
  python->PyErr_SetString(kind, message.c_str());
  return nullptr;
}

PyObject* BoolObject(bool value) { return pyapi::NewBool(*python, value); }

std::optional<ring::ColumnType> TypeByName(const std::string& name) {
  using Pair = std::pair<const char*, ring::ColumnType>;
  static constexpr std::array kTypes{
      Pair{"int64", ring::ColumnType::kInt64}, Pair{"double", ring::ColumnType::kDouble},
      Pair{"bool", ring::ColumnType::kBool},   Pair{"string", ring::ColumnType::kString},
      Pair{"bytes", ring::ColumnType::kBytes}, Pair{"timestamp", ring::ColumnType::kTimestamp},
  };
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return std::nullopt;
}

// One (name, type) of the list.
std::optional<ring::Column> ColumnAt(PyObject* list, std::ptrdiff_t index) {
  std::optional<ring::Column> column;
  const Ref item = Ref::New(*python, python->PySequence_GetItem(list, index));
  if (item && python->PySequence_Size(item.get()) == 2) {
    const Ref name_object = Ref::New(*python, python->PySequence_GetItem(item.get(), 0));
    const Ref type_object = Ref::New(*python, python->PySequence_GetItem(item.get(), 1));
    const auto name = TextOf(name_object.get());
    const auto type = TypeByName(TextOf(type_object.get()).value_or(""));
    if (name && type) column = ring::Column{*name, *type};
  }
  python->PyErr_Clear();
  return column;
}

PyObject* Table(PyObject*, PyObject* arguments) {
  const std::ptrdiff_t count = python->PyTuple_Size(arguments);
  const auto name = count >= 1 ? TextOf(python->PyTuple_GetItem(arguments, 0)) : std::nullopt;
  if (!name || count > 2) return Raise(*python->PyExc_TypeError, "table(name, columns) takes a name");
  std::vector<ring::Column> columns;
  if (count == 2) {
    PyObject* list = python->PyTuple_GetItem(arguments, 1);
    const std::ptrdiff_t size = python->PySequence_Size(list);
    for (std::ptrdiff_t i = 0; i < size; ++i) {
      auto column = ColumnAt(list, i);
      if (!column) return Raise(*python->PyExc_TypeError, "a column is a pair of a name and a known type");
      columns.push_back(std::move(*column));
    }
    if (columns.empty()) return Raise(*python->PyExc_TypeError, "a table needs columns");
  }
  auto handle = record::Recorder::FindTable(*name, std::move(columns));
  if (!handle.ok()) {
    const Error& error = handle.error();
    return Raise(error.code == Code::kUsage ? *python->PyExc_ValueError : *python->PyExc_RuntimeError,
                 error.hint.empty() ? error.message : error.message + " (" + error.hint + ")");
  }
  return pyapi::MakeAppend(*python, *handle);
}

PyObject* Tid(PyObject*, PyObject*) { return python->PyLong_FromLongLong(syscall(SYS_gettid)); }

PyObject* Active(PyObject*, PyObject*) { return BoolObject(record::Recorder::Recording()); }

std::array methods{
    PyMethodDef{"table", reinterpret_cast<void*>(&Table), pyapi::kMethVarargs,
                "table(name, columns) -> append"},
    PyMethodDef{"tid", reinterpret_cast<void*>(&Tid), pyapi::kMethNoargs, "tid() -> int"},
    PyMethodDef{"active", reinterpret_cast<void*>(&Active), pyapi::kMethNoargs, "active() -> bool"},
};

}  // namespace

bool AddNativeFunctions(const PythonApi& api, PyObject* dict) {
  python = &api;
  for (PyMethodDef& method : methods) {
    if (!pyapi::AddFunction(api, dict, &method, &no_data)) return false;
  }
  return true;
}

bool PublishNative(const std::string& hooks) {
  const PythonApi* api = pyapi::FindPython();
  if (api == nullptr || api->type_offset == 0 || !api->Usable()) return false;
  const int state = api->PyGILState_Ensure();
  Ref dict = Ref::New(*api, api->PyDict_New());
  const bool published =
      dict && AddNativeFunctions(*api, dict.get()) && torch::AddStepFunction(*api, dict.get()) &&
      api->PyDict_SetItemString(api->PyImport_GetModuleDict(), kNativeName, dict.get()) == 0;
  dict = {};  // before the GIL goes
  if (!published) api->PyErr_Clear();
  if (!hooks.empty() && Hooks::Run("none")) (void)Hooks::Configure(*api, hooks);
  api->PyGILState_Release(state);
  return published;
}

}  // namespace probing::hooks
