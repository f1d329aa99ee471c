// torch's profiler without a word into the job's output.
//
// Kineto, which torch's profiler is built on, logs to stderr when it starts and stops, and once more when it
// is first used on another thread than the one that has imported torch. Both have a switch in its library:
// the level below which it says nothing, and the call that tells it which thread is meant.
//
//   quiet_kineto(None) -> int    from now on it says nothing; the level that was set before. None: this torch
//   has
//                                no such switch, or there is none
//   quiet_kineto(level)          back to that level
#pragma once

#include "pyapi/python_api.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::PythonApi;

// Puts the function into a dict. False with a Python exception. With the GIL.
bool AddKinetoFunction(const PythonApi& api, PyObject* dict);

}  // namespace probing::torch
