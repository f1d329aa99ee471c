// The Python code that talks with users, beyond a single eval: prompts, frames, log points, the debugger.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Puts it, and the functions of ours it needs (talk_functions.h), behind evaluate.py and session.py.
// False with a Python exception. With the GIL.
bool AddTalk(const PythonApi& api, PyObject* names);

}  // namespace probing::pyapi
