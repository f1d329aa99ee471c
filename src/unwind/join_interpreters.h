// One stack out of a thread's stacks in several interpreters.
//
// A thread that runs code in a subinterpreter has a Python stack in each interpreter, and one C stack with
// the runs of the interpreter's loop of all of them.
#pragma once

#include <vector>

#include "cpython/snapshot.h"

namespace probing::unwind {

// REQUIRES: all are of the same thread, and not empty. Every frame of the result says whose it is. The order
// is that of the C stack (since 3.12); before, the main interpreter is the outermost one, and where there are
// more than two nobody knows: the result is torn then.
cpython::Thread JoinInterpreters(std::vector<cpython::Thread> states);

}  // namespace probing::unwind
