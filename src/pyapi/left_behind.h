// What stays in the interpreter when the probe goes, and the next probe takes up again: a dict in the
// interpreter's own place for such things, which no code of the job looks into. In it are
//   "exit"     the one function that atexit has of ours: Python gives back no place that a function had there
//   "streams"  those of capture.py that a thread of the job may still be inside of, where any were needed
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Both with the GIL; `names` is the namespace of embedded sources.
// Before they run: that dict as `kept`; None before Python 3.8, which has no such place.
void OfferLeftBehind(const PythonApi& api, PyObject* names);
// When the probe goes: where there is no place, `left_streams` is not given back.
void LeaveBehind(const PythonApi& api, PyObject* names);

}  // namespace probing::pyapi
