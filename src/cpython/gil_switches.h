// How often the GIL has changed hands, as CPython counts it.
//
// While threads wait for the GIL, Python code lets go of it every few milliseconds, and the count goes on. A
// count that stands still means that one thread has kept it: it is in C code that does not let go.
#pragma once

#include <optional>

#include "cpython/states.h"

namespace probing::cpython {

class GilSwitches {
 public:
  // Nothing when this interpreter has no GIL, or it is not where it is expected.
  std::optional<std::uint64_t> Read(const process::Memory& memory, const Location& location,
                                    const InterpreterState& interpreter);

 private:
  process::RemoteAddress FindInRuntime(const process::Memory& memory, const Location& location,
                                       const InterpreterState& interpreter) const;

  process::RemoteAddress count_;  // 3.7 to 3.11, once it was found
};

}  // namespace probing::cpython
