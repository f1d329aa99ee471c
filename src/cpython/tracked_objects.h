// The objects that Python's garbage collector knows of: lists, dicts, instances, greenlets and so on.
//
// For what no other list leads to. The lists are walked link by link, the newest objects first, while the
// program changes them: a walk that meets a change goes back to an object that is where it was. If no walk
// came to the end in time, the answer says that it may be not all. A million objects take some 40 ms.
#pragma once

#include <functional>
#include <vector>

#include "cpython/states.h"

namespace probing::cpython {

struct TrackedObjects {
  std::vector<process::RemoteAddress> objects;  // in the order of their addresses
  std::string not_all;                          // why some may be missing; empty when all were seen
  bool is_out_of_time = false;
};

// Objects whose class `is_wanted` (called once for each class). Python 3.6 to 3.14 with a GIL.
TrackedObjects FindTracked(const process::Memory& memory, const Location& location,
                           const InterpreterState& interpreter, std::int64_t limit_ms,
                           const std::function<bool(process::RemoteAddress type)>& is_wanted);

}  // namespace probing::cpython
