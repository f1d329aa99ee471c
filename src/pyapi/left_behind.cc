#include "pyapi/left_behind.h"

#include <string>

namespace probing::pyapi {
namespace {

constexpr char kKey[] = "probing " PROBING_VERSION " streams";

// The interpreter's own place for such things, which no code of the job looks into. Null before 3.8.
PyObject* Place(const PythonApi& api) {
  if (api.PyInterpreterState_GetDict == nullptr || api.PyInterpreterState_Main == nullptr) return nullptr;
  return api.PyInterpreterState_GetDict(api.PyInterpreterState_Main());
}

std::string NamespaceKey(std::uint64_t build) {
  return "probing " PROBING_VERSION " helpers " + std::to_string(build);
}

}  // namespace

void OfferLeftBehind(const PythonApi& api, PyObject* helpers) {
  PyObject* place = Place(api);
  PyObject* kept = place == nullptr ? nullptr : api.PyDict_GetItemString(place, kKey);
  api.PyDict_SetItemString(helpers, "kept_streams", kept == nullptr ? api._Py_NoneStruct : kept);
}

void LeaveBehind(const PythonApi& api, PyObject* helpers) {
  PyObject* streams = api.PyDict_GetItemString(helpers, "streams");
  if (streams == nullptr) return;
  PyObject* place = Place(api);
  if (place == nullptr)
    api.Py_IncRef(streams);
  else if (api.PyDict_SetItemString(place, kKey, streams) != 0)
    api.PyErr_Clear();
}

void LeaveNamespace(const PythonApi& api, std::uint64_t build, PyObject* helpers) {
  PyObject* place = Place(api);
  if (place != nullptr && api.PyDict_SetItemString(place, NamespaceKey(build).c_str(), helpers) != 0) {
    api.PyErr_Clear();
  }
}

PyObject* TakeNamespace(const PythonApi& api, std::uint64_t build) {
  const std::string key = NamespaceKey(build);
  PyObject* place = Place(api);
  PyObject* kept = place == nullptr ? nullptr : api.PyDict_GetItemString(place, key.c_str());
  if (kept == nullptr || kept == api._Py_NoneStruct) return nullptr;
  api.Py_IncRef(kept);
  // Taken: who changes it has it alone.
  if (api.PyDict_SetItemString(place, key.c_str(), api._Py_NoneStruct) != 0) api.PyErr_Clear();
  return kept;
}

}  // namespace probing::pyapi
