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

struct MixedOptions {
  int attempts = 8;                // pauses between them are doubled: 25 ms in all
  std::int64_t deadline_ms = 300;  // for a thread to stop
  std::size_t max_depth = 16384;   // frames of each kind
};

// Reads the thread again, a bounded number of times, when it was caught at an instruction between
// two states of the interpreter: then the stacks do not fit. `interpreter` may be null, for processes
// without Python.
Result<MixedReading> ReadMixed(Unwinder& unwinder, cpython::Interpreter* interpreter, pid_t tid,
                               const MixedOptions& options = {});

}  // namespace probing::unwind
