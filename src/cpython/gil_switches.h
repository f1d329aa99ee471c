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

  // Whether a thread that sleeps in a futex at this address waits for the GIL, as of the last reading: what
  // it waits with stands right behind the count. Nothing when it is not known where that is.
  std::optional<bool> IsWait(std::uint64_t futex) const;

 private:
  process::RemoteAddress FindInRuntime(const process::Memory& memory, const Location& location,
                                       const InterpreterState& interpreter) const;

  process::RemoteAddress count_;  // where it is, as far as it is known
};

}  // namespace probing::cpython
