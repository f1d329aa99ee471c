// Both stacks of a thread at one moment, merged.
#pragma once

#include "cpython/interpreter.h"
#include "unwind/merge.h"
#include "unwind/unwinder.h"

namespace probing::unwind {

struct MixedReading {
  NativeStack native;
  cpython::Thread python;
  MixedStack stack;
  int attempts = 0;
};

// Reads the thread again, a bounded number of times, when it was caught at an instruction between
// two states of the interpreter: then the stacks do not fit. `interpreter` may be null, for processes
// without Python.
Result<MixedReading> ReadMixed(Unwinder& unwinder, cpython::Interpreter* interpreter, pid_t tid);

}  // namespace probing::unwind
