// What stays in the interpreter when the probe goes, and the next probe takes up again: a dict in the
// interpreter's own place for such things, which no code of the job looks into. In it are
//   "exit"     the one function that atexit has of ours: Python gives back no place that a function had there
//   "oom"      the one function that torch calls when a GPU has no memory left (oom.py)
//   "streams"  those of capture.py that a thread of the job may still be inside of, where any were needed
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Both with the GIL.
// Puts that dict into a namespace as `kept`; None before Python 3.8, which has no such place. False with a
// Python exception.
bool OfferLeftBehind(const PythonApi& api, PyObject* names);
// When the probe goes: where there is no place, these streams of capture.py are not given back. Null is fine.
void LeaveBehind(const PythonApi& api, PyObject* streams);

}  // namespace probing::pyapi
