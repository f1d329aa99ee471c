// One step outward: from a frame's registers to its caller's.
#pragma once

#include "process/memory.h"
#include "unwind/cfi.h"
#include "unwind/registers.h"

namespace probing::unwind {

// By the rules of the unwind table. kNotFound: a register is needed whose value is not known. An
// undefined return address is no error: the caller has none, it is the end of the stack.
Result<Registers> StepByRules(const Row& row, const Registers& registers, const process::Memory& memory);

// By the chain of frame pointers, where there is no table. Errors when it is none.
Result<Registers> StepByFramePointer(const Registers& registers, const process::Memory& memory);

// By the return address on top of the stack: nothing was pushed since the call.
Result<Registers> StepFromTopOfStack(const Registers& registers, const process::Memory& memory);

}  // namespace probing::unwind
