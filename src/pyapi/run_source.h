// Python source that travels inside the library.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Runs it as a module's body in the namespace. False with a Python exception. With the GIL.
inline bool RunSource(const PythonApi& api, const char* source, PyObject* names) {
  constexpr int kFileInput = 257;  // Py_file_input
  PyObject* done = api.PyRun_String(source, kFileInput, names, names);
  if (done != nullptr) api.Py_DecRef(done);
  return done != nullptr;
}

}  // namespace probing::pyapi
