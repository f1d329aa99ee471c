#include "pyapi/left_behind.h"

#include "pyapi/ref.h"

namespace probing::pyapi {
namespace {

constexpr char kKey[] = "probing " PROBING_VERSION;

// A borrowed reference. Null before 3.8, or when there is no memory.
PyObject* KeptDict(const PythonApi& api) {
  if (api.PyInterpreterState_GetDict == nullptr || api.PyInterpreterState_Main == nullptr) return nullptr;
  PyObject* place = api.PyInterpreterState_GetDict(api.PyInterpreterState_Main());
  if (place == nullptr) return nullptr;
  PyObject* kept = api.PyDict_GetItemString(place, kKey);
  if (kept != nullptr) return kept;
  const Ref made = Ref::New(api, api.PyDict_New());
  if (!made || api.PyDict_SetItemString(place, kKey, made.get()) != 0) api.PyErr_Clear();
  return api.PyDict_GetItemString(place, kKey);
}

}  // namespace

bool OfferLeftBehind(const PythonApi& api, PyObject* names) {
  PyObject* kept = KeptDict(api);
  return api.PyDict_SetItemString(names, "kept", kept == nullptr ? api._Py_NoneStruct : kept) == 0;
}

void LeaveBehind(const PythonApi& api, PyObject* streams) {
  if (streams != nullptr && streams != api._Py_NoneStruct && KeptDict(api) == nullptr) api.Py_IncRef(streams);
}

}  // namespace probing::pyapi
