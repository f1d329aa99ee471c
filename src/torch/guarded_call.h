// Calls a C++ function of the job's own libraries from code of ours that knows no exceptions.
//
// Our library has a C++ runtime of its own, so that a catch block of ours must not meet an exception of
// theirs. The unwinder that throws is asked to stop at a frame of ours instead, by its own functions, which
// are looked up in the process.
#pragma once

namespace probing::torch {

// `library` is the one whose function is called; false when this process has no unwinder to ask.
bool PrepareGuardedCall(void* library);

// False when the function has thrown; what it threw is gone then.
// REQUIRES: PrepareGuardedCall() returned true. One thread at a time.
bool GuardedCall(void (*function)(void*), void* argument);

}  // namespace probing::torch
