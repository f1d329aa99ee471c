// A reference to a Python object that the scope owns. With the GIL.
#pragma once

#include <utility>

#include "pyapi/python_api.h"

namespace probing::pyapi {

class Reference {
 public:
  // Takes over a new reference; null is fine.
  Reference(const PythonApi& api, PyObject* object) : api_(api), object_(object) {}
  ~Reference() {
    if (object_ != nullptr) api_.Py_DecRef(object_);
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  PyObject* get() const { return object_; }
  // The caller owns it from here on.
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const PythonApi& api_;
  PyObject* object_;
};

}  // namespace probing::pyapi
