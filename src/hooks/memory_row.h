// One row of python.memory, from inside.
#pragma once

#include "pyapi/python_api.h"

namespace probing::hooks {

using pyapi::PyObject;
using pyapi::PythonApi;

// `counts` is memory_counts() of hooks.py. With the GIL; nothing is raised. Writes nothing when the
// function returns None.
void WriteMemoryRow(const PythonApi& api, PyObject* counts);

}  // namespace probing::hooks
