// A reference to a Python object that the scope owns.
//
// Python's own words: a call returns a new reference, which somebody has to give back, or lends a borrowed
// one. New() takes over the first, Borrowed() adds one to the second. Null is fine in both: the call has
// failed, and an exception may be set.
//
// REQUIRES: the GIL, for everything but an empty one. What a reference gives back may run code of the job,
// which may come to the same place again: change what others see first, then let the reference go.
#pragma once

#include <utility>

#include "pyapi/python_api.h"

namespace probing::pyapi {

class Ref {
 public:
  Ref() = default;
  [[nodiscard]] static Ref New(const PythonApi& api, PyObject* object) { return Ref(api, object); }
  [[nodiscard]] static Ref Borrowed(const PythonApi& api, PyObject* object) {
    if (object != nullptr) api.Py_IncRef(object);
    return Ref(api, object);
  }
  ~Ref() {
    if (object_ != nullptr) api_->Py_DecRef(object_);
  }
  Ref(Ref&& other) noexcept : api_(other.api_), object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    const Ref before = std::move(*this);  // goes last
    api_ = other.api_;
    object_ = other.release();
    return *this;
  }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  // The caller owns it from here on.
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  Ref(const PythonApi& api, PyObject* object) : api_(&api), object_(object) {}

  const PythonApi* api_ = nullptr;
  PyObject* object_ = nullptr;
};

// New references, as functions of ours return them.
inline PyObject* NewRef(const PythonApi& api, PyObject* object) {
  api.Py_IncRef(object);
  return object;
}
inline PyObject* NewNone(const PythonApi& api) { return NewRef(api, api._Py_NoneStruct); }
inline PyObject* NewBool(const PythonApi& api, bool value) {
  return NewRef(api, value ? api._Py_TrueStruct : api._Py_FalseStruct);
}

}  // namespace probing::pyapi
