#include "pyapi/left_behind.h"

namespace probing::pyapi {
namespace {

constexpr char kKey[] = "probing " PROBING_VERSION " streams";

// The interpreter's own place for such things, which no code of the job looks into. Null before 3.8.
PyObject* Place(const PythonApi& api) {
  if (api.PyInterpreterState_GetDict == nullptr || api.PyInterpreterState_Main == nullptr) return nullptr;
  return api.PyInterpreterState_GetDict(api.PyInterpreterState_Main());
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

}  // namespace probing::pyapi
