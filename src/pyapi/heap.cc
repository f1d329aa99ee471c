#include "pyapi/heap.h"

#include <array>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pyapi/functions.h"

namespace probing::pyapi {
namespace {

const PythonApi* python = nullptr;
char no_data;

// Owns a reference. Nothing here may run Python code before all that was found is given back.
class Reference {
 public:
  explicit Reference(PyObject* object) : object_(object) {}
  ~Reference() {
    if (object_ != nullptr) python->Py_DecRef(object_);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

using Found = std::vector<PyObject*>;  // references of ours

// A list as all Pythons with a GIL have it. PySequence_GetItem() for each of some 100,000 objects would take
// as long as everything else here.
struct List {
  std::ptrdiff_t references;
  PyObject* type;
  std::ptrdiff_t size;
  PyObject** items;
};

// Calls each(object) for what is in a list; those for which it is true go into `found`.
template <typename Each>
void Sort(PyObject* list, const Each& each, Found* found) {
  if (python->TypeOf(list) != python->PyList_Type) return;
  const auto& known = *reinterpret_cast<const List*>(list);
  for (std::ptrdiff_t i = 0; i < known.size; ++i) {
    if (!each(known.items[i])) continue;
    python->Py_IncRef(known.items[i]);
    found->push_back(known.items[i]);
  }
}

void GiveBack(Found& found) {
  for (PyObject* object : std::exchange(found, {})) python->Py_DecRef(object);
}

// A new list. The references are given back.
PyObject* ListOf(Found& found) {
  PyObject* list = python->PyObject_CallFunctionObjArgs(python->PyList_Type, nullptr);
  const Reference append(python->PyUnicode_InternFromString("append"));
  for (PyObject* object : found) {
    if (list == nullptr || !append) break;
    const Reference done(python->PyObject_CallMethodObjArgs(list, append.get(), object, nullptr));
    if (!done) python->PyErr_Clear();
  }
  GiveBack(found);
  return list;
}

PyObject* Pick(PyObject*, PyObject* arguments) {
  PyObject* get = python->PyTuple_GetItem(arguments, 0);
  PyObject* base = get == nullptr ? nullptr : python->PyTuple_GetItem(arguments, 1);
  if (base == nullptr) return nullptr;
  std::unordered_map<const PyObject*, bool> wanted;  // what is known of a class; asking runs no Python code
  Found found;
  {
    const Reference all(python->PyObject_CallFunctionObjArgs(get, nullptr));
    if (!all) return nullptr;
    Sort(
        all.get(),
        [&](PyObject* object) {
          PyObject* type = python->TypeOf(object);
          const auto [known, is_new] = wanted.try_emplace(type, false);
          if (is_new) known->second = python->PyType_IsSubtype(type, base) != 0;
          return known->second;
        },
        &found);
  }
  return ListOf(found);
}

// What refers to these objects; true when that could be found out.
bool FindReferrers(PyObject* get, PyObject* objects, Found* tuples, Found* others) {
  const Reference arguments(python->PySequence_Tuple(objects));
  const Reference all(arguments ? python->PyObject_CallObject(get, arguments.get()) : nullptr);
  if (!all) return false;
  const auto is_tuple = [](PyObject* object) { return python->TypeOf(object) == python->PyTuple_Type; };
  Sort(all.get(), is_tuple, tuples);
  Sort(all.get(), std::not_fn(is_tuple), others);
  return true;
}

PyObject* PickReferrers(PyObject*, PyObject* arguments) {
  PyObject* get = python->PyTuple_GetItem(arguments, 0);
  PyObject* objects = get == nullptr ? nullptr : python->PyTuple_GetItem(arguments, 1);
  if (objects == nullptr) return nullptr;
  Found tuples;
  Found others;
  bool good = FindReferrers(get, objects, &tuples, &others);
  if (good && !tuples.empty()) {
    Found ignored;
    const Reference held(ListOf(tuples));
    good = held && FindReferrers(get, held.get(), &ignored, &others);
    GiveBack(ignored);
    // The list of the tuples is one that refers to them.
    std::erase_if(others, [&](PyObject* object) {
      if (object != held.get()) return false;
      python->Py_DecRef(object);
      return true;
    });
  }
  if (good) return ListOf(others);
  GiveBack(tuples);
  GiveBack(others);
  return nullptr;
}

std::array methods{
    PyMethodDef{"pick", reinterpret_cast<void*>(&Pick), kMethVarargs, nullptr},
    PyMethodDef{"pick_referrers", reinterpret_cast<void*>(&PickReferrers), kMethVarargs, nullptr},
};

}  // namespace

bool AddHeapFunctions(const PythonApi& api, PyObject* dict) {
  python = &api;
  if (!api.HasGil()) return true;
  for (PyMethodDef& method : methods) {
    if (!AddFunction(api, dict, &method, &no_data)) return false;
  }
  return true;
}

void RemoveHeapFunctions(const PythonApi& api, PyObject* dict) {
  for (const PyMethodDef& method : methods) {
    if (api.PyDict_SetItemString(dict, method.name, api._Py_NoneStruct) != 0) api.PyErr_Clear();
  }
}

}  // namespace probing::pyapi
