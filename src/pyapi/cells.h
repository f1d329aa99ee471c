// From Python values to the cells of a row.
//
// Exact types are recognised by their type pointer; what remains (subclasses, scalars of numpy and
// torch) is asked for its __index__ or __float__. All with the GIL.
#pragma once

#include <cstddef>
#include <string>

#include "pyapi/python_api.h"
#include "ring/cell.h"
#include "ring/schema.h"

namespace probing::pyapi {

// Python objects that have to live until the row is written. Empty for usual values.
class Borrowed {
 public:
  explicit Borrowed(const PythonApi& api) : api_(api) {}
  ~Borrowed() {
    for (std::size_t i = 0; i < count_; ++i) api_.Py_DecRef(objects_[i]);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  // Takes the reference.
  void Keep(PyObject* object) { objects_[count_++] = object; }

 private:
  const PythonApi& api_;
  std::size_t count_ = 0;
  PyObject* objects_[ring::kMaxColumns];
};

// False with a Python exception that names the column. A NULL is always fine.
bool ToCell(const PythonApi& api, PyObject* value, const ring::Column& column, ring::Cell* cell,
            Borrowed* borrowed);

}  // namespace probing::pyapi
