// GpuClock: times on the GPU, by events that are put between its work and read later.
//
// Nothing ever waits for the GPU: an event is asked whether it has happened, steps later. While a
// graph is captured nothing is asked of it at all. Events are used again. With the GIL.
#pragma once

#include <vector>

#include "pyapi/python_api.h"
#include "pyapi/ref.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::PythonApi;

class GpuClock {
 public:
  // The callables are those of TorchTracer::Objects, and live as long as the clock is used.
  void Use(const PythonApi& api, PyObject* new_event, PyObject* capturing);
  // Drops all events.
  void Clear();

  // A reference to an event that was recorded now; null when that cannot be.
  PyObject* Record();
  void GiveBack(PyObject* event);

  bool Happened(PyObject* event) const;
  // Between two events that have happened. Negative when it cannot be known.
  double Milliseconds(PyObject* from, PyObject* to) const;

 private:
  static constexpr std::size_t kMostFree = 4096;

  const PythonApi* api_ = nullptr;
  PyObject* new_event_ = nullptr;
  PyObject* capturing_ = nullptr;
  pyapi::Ref record_;  // names of methods
  pyapi::Ref query_;
  pyapi::Ref elapsed_;
  std::vector<pyapi::Ref> free_;
};

}  // namespace probing::torch
