// What the probe offers to Python code: the package `probing` and the embedded hooks.
//
//   table(name, [(column, type), …]) -> append   types as in table/types.h; without columns a table
//                                                that Probing declares
//   tid() -> int                                 of this thread, as the kernel knows it
//   active() -> bool                             whether rows are recorded
//   step(number)                                 a step begins (torch/native.h); for the package only
#pragma once

#include <string>

#include "pyapi/python_api.h"

namespace probing::hooks {

using pyapi::PyObject;
using pyapi::PythonApi;

// Puts these functions into a dict. False with a Python exception. With the GIL.
bool AddNativeFunctions(const PythonApi& api, PyObject* dict);

// Makes a dict with these functions and leaves it in sys.modules under this name, for the package to
// take out. From any thread that may or may not have the GIL. False when there is no Python to use.
// `hooks` are put in place as well, unless some are already; "" for none.
inline constexpr char kNativeName[] = "_probing_native";
bool PublishNative(const std::string& hooks);

}  // namespace probing::hooks
