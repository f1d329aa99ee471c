// Makes the end of the interpreter wait for our threads.
//
// A thread that waits for the interpreter's lock of imports while the main thread takes the interpreter apart
// wakes up in memory that was given back: the process crashes at its end. So the first code of ours that runs
// registers a function with atexit, which keeps our threads away (NoMoreGil()). That code takes no such lock,
// and until it is through, the pending call by which we ask for the GIL holds the main thread back (gil.cc):
// Python runs pending calls before it ends.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Without the GIL. True also when there can be none, or when it was removed: nothing is to be waited for.
bool ExitIsGuarded();
// Does nothing the second time, nor after RemoveExitGuard(). Leaves no exception. With the GIL, as all below.
void GuardExit(const PythonApi& api);
// A list with what is called at the end of the interpreter; a borrowed reference, null when there is none.
PyObject* ExitCell(const PythonApi& api);
void RemoveExitGuard(const PythonApi& api);

}  // namespace probing::pyapi
