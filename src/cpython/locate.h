// Finds the interpreter in a process: where its state starts and how it is laid out.
#pragma once

#include <string>

#include "cpython/offsets.h"
#include "process/maps.h"
#include "process/memory.h"

namespace probing::cpython {

struct Location {
  Version version;
  Offsets offsets;
  process::RemoteAddress first_interpreter;  // address of the pointer to the list of interpreters
  process::RemoteAddress current_thread;     // up to 3.11: address of the pointer to the GIL's holder
  process::RemoteAddress generations;        // 3.6: address of the pointer to the collector's lists
  process::RemoteAddress code_type;          // PyCode_Type; null when the symbol is missing
  std::string object;                        // the file that contains the interpreter
};

// Looks at mapped objects named like Python first, then at all others (a program may embed it).
// Works on the target's memory alone: the files may be deleted or in another mount namespace.
Result<Location> Locate(const process::Memory& memory, const process::Maps& maps);

}  // namespace probing::cpython
