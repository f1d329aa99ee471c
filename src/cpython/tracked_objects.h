// The objects that Python's garbage collector knows of: lists, dicts, instances, greenlets and so on.
//
// For what no other list leads to. The lists are walked link by link while the program changes them, so a
// walk may fail half-way: it is tried again, and what all tries saw together is the answer, said to be not
// all if none came to the end. A hundred megabytes of objects take some 50 ms.
#pragma once

#include <functional>
#include <vector>

#include "cpython/states.h"

namespace probing::cpython {

struct TrackedObjects {
  std::vector<process::RemoteAddress> objects;  // in the order of their addresses
  std::string not_all;                          // why some may be missing; empty when all were seen
};

// Objects whose class `is_wanted` (called once for each class). Python 3.7 to 3.13 with a GIL.
TrackedObjects FindTracked(const process::Memory& memory, const Location& location,
                           const InterpreterState& interpreter,
                           const std::function<bool(process::RemoteAddress type)>& is_wanted);

}  // namespace probing::cpython
