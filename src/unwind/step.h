// One step outward: from a frame's registers to its caller's.
#pragma once

#include "process/memory.h"
#include "unwind/cfi.h"
#include "unwind/registers.h"

namespace probing::unwind {

// By the rules of the unwind table. kNotFound: a register is needed whose value is not known. An
// undefined return address is no error: the caller has none, it is the end of the stack.
Result<Registers> StepByRules(const Row& row, const Registers& registers, const process::Memory& memory);

// From the signal trampoline to what the signal interrupted, where no table says it.
Result<Registers> StepOverSignalFrame(const Registers& registers, const process::Memory& memory);

// By the chain of frame pointers, where there is no table. Errors when it is none. The stack pointer is only
// a lower bound where a frame pointer may lie anywhere in its frame (arch::kFramePointerTellsStackPointer).
Result<Registers> StepByFramePointer(const Registers& registers, const process::Memory& memory);

// By the return address where a call puts it: nothing was done since the call.
Result<Registers> StepFromCall(const Registers& registers, const process::Memory& memory);

}  // namespace probing::unwind
