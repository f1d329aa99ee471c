// Python 3.6 has no _PyRuntime, and `interp_head` is a static variable: it must be searched for.
#pragma once

#include "cpython/offsets.h"
#include "process/maps.h"
#include "process/memory.h"

namespace probing::cpython {

// Address of the variable that points to the newest interpreter: a word in the writable data
// of `object` which points to something that behaves like an interpreter with its threads. It
// is nearly always close to `neighbour` (_PyThreadState_Current), so that is tried first.
Result<process::RemoteAddress> FindInterpreterPointer36(const process::Memory& memory,
                                                        const process::Maps& maps,
                                                        const process::Maps::Object& object,
                                                        const Offsets& offsets,
                                                        process::RemoteAddress neighbour);

}  // namespace probing::cpython
