// What evaluations leave in the interpreter when the probe goes, and the next probe takes up again: the
// streams of capture.py, which a thread of the job may still be inside of.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Both with the GIL; `helpers` is the namespace of the embedded sources.
// Before they run: what an earlier probe left, or None, as kept_streams.
void OfferLeftBehind(const PythonApi& api, PyObject* helpers);
// When the probe goes.
void LeaveBehind(const PythonApi& api, PyObject* helpers);

}  // namespace probing::pyapi
