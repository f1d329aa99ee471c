// From Python values to the cells of a row, and append(), by which Python code writes one.
//
// Exact types are recognised by their type pointer; what remains (subclasses, scalars of numpy and
// torch) is asked for its __index__ or __float__. All with the GIL.
#pragma once

#include <cstddef>
#include <string>

#include "pyapi/python_api.h"
#include "record/recorder.h"
#include "ring/cell.h"
#include "ring/schema.h"

namespace probing::pyapi {

// References to objects that have to live until the row is written. None for usual values, so that a row
// costs no more than looking at the count.
class KeptObjects {
 public:
  explicit KeptObjects(const PythonApi& api) : api_(api) {}
  ~KeptObjects() {
    for (std::size_t i = 0; i < count_; ++i) api_.Py_DecRef(objects_[i]);
  }
  KeptObjects(const KeptObjects&) = delete;
  KeptObjects& operator=(const KeptObjects&) = delete;

  // Takes the reference.
  void Keep(PyObject* object) { objects_[count_++] = object; }

 private:
  const PythonApi& api_;
  std::size_t count_ = 0;
  PyObject* objects_[ring::kMaxColumns];
};

// False with a Python exception that names the column. A NULL is always fine.
bool ToCell(const PythonApi& api, PyObject* value, const ring::Column& column, ring::Cell* cell,
            KeptObjects* kept);

// append(timestamp, v1, v2, …) of one table: writes a row and says with a bool whether it was stored.
// timestamp is in ns or None for now; None is NULL elsewhere, as are columns that are left out.
PyObject* MakeAppend(const PythonApi& api, record::TableHandle* table);

}  // namespace probing::pyapi
