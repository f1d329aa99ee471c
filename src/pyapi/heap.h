// What heap.py gets of us: looks at all objects of the interpreter that end within one call.
//
//   pick(get, base) -> list     of what get() returns, the objects of a class and of those made from it
//   pick_referrers(get, objects) -> list     get(*objects) without tuples, and the same of the tuples in it
//
// Neither returns a tuple (nobody asks for that class), and nothing else of what was found is held when they
// return: heap.py says why.
// Not where there is no GIL, which it is all about.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Puts them into a dict. False with a Python exception. With the GIL.
bool AddHeapFunctions(const PythonApi& api, PyObject* dict);
// Takes them out again, so that nothing keeps our code. With the GIL.
void RemoveHeapFunctions(const PythonApi& api, PyObject* dict);

}  // namespace probing::pyapi
