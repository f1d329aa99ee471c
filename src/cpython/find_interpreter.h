// Finds interpreters in the data of an object whose symbols do not tell where they are: a search for
// what looks like one. Python 3.6 keeps the list in a static variable, so it always needs this; newer ones
// only where a static or stripped program does not export `_PyRuntime`.
#pragma once

#include <optional>

#include "cpython/offsets.h"
#include "process/maps.h"

namespace probing::cpython {

// The address of the pointer to the first interpreter of a Python 3.6. `neighbour` is a variable that is
// probably near it.
Result<process::RemoteAddress> FindInterpreterPointer36(const process::Memory& memory,
                                                        const process::Maps& maps,
                                                        const process::Maps::Object& object,
                                                        const Offsets& offsets,
                                                        process::RemoteAddress neighbour);

// The same of any version up to 3.12, with nothing to start from.
Result<process::RemoteAddress> FindInterpreterPointer(const process::Memory& memory,
                                                      const process::Maps& maps,
                                                      const process::Maps::Object& object,
                                                      const Offsets& offsets);

// The runtime of a Python since 3.13: it begins with a cookie.
std::optional<process::RemoteAddress> FindSelfDescription(const process::Memory& memory,
                                                          const process::Maps& maps,
                                                          const process::Maps::Object& object);

}  // namespace probing::cpython
