// FunctionPatch: C code around a function written in Python, without anybody seeing a difference.
//
// A Python function has a pointer to the C function that calls it (its vectorcall, since 3.8). That
// pointer is exchanged; the object, its code and the class or module it is in stay as they are. So
// nothing refers to us, torch.compile and pickle find what they know, and putting it back is one store.
//
// Only calls that come through C see it, which those of special methods do (`module(x)`, `next(it)`).
// 3.11 does not look at the pointer where Python code calls a Python function directly.
// All with the GIL; there must be one.
#pragma once

#include <cstddef>

#include "pyapi/python_api.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::PythonApi;

using Vectorcall = PyObject* (*)(PyObject* function, PyObject* const* arguments, std::size_t count_and_flag,
                                 PyObject* keywords);

class FunctionPatch {
 public:
  // False, and without effect, when IsPlainFunction() says no.
  bool Install(const PythonApi& api, PyObject* function, PyObject* plain, Vectorcall replacement);

  // These leave a pointer alone that is not ours any more.
  void Remove(const PythonApi& api);
  // Calls go where they went before, until Resume(). Both do nothing when none is installed.
  void Pause(const PythonApi& api);
  void Resume(const PythonApi& api);

  bool installed() const { return function_ != nullptr; }
  bool IsFor(const PyObject* function) const { return function_ == function; }

 private:
  void Exchange(const PythonApi& api, Vectorcall expected, Vectorcall value);

  PyObject* function_ = nullptr;   // a reference of ours
  Vectorcall* pointer_ = nullptr;  // in the function
  Vectorcall replacement_ = nullptr;
};

// Whether both are Python functions and have the same pointer, which is what all have: `plain` is one that
// nobody has touched. plain_vectorcall is known then.
bool IsPlainFunction(const PythonApi& api, PyObject* function, PyObject* plain);
inline Vectorcall plain_vectorcall = nullptr;

}  // namespace probing::torch
