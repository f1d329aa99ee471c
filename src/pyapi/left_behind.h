// What evaluations leave in the interpreter when the probe goes, and the next probe takes up again: the
// streams of capture.py, which a thread of the job may still be inside of, and the compiled sources. Python
// gives classes and functions back only when it collects, and many jobs have switched that off: a job that is
// visited again and again would grow.
#pragma once

#include <cstdint>

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Both with the GIL; `helpers` is the namespace of the embedded sources.
// Before they run: what an earlier probe left, or None, as kept_streams.
void OfferLeftBehind(const PythonApi& api, PyObject* helpers);
// When the probe goes.
void LeaveBehind(const PythonApi& api, PyObject* helpers);

// The namespace itself, for probes of the same `build`. It must hold nothing of the job's and no function of
// ours.
void LeaveNamespace(const PythonApi& api, std::uint64_t build, PyObject* helpers);
// A new reference, or null: nobody has left one.
PyObject* TakeNamespace(const PythonApi& api, std::uint64_t build);

}  // namespace probing::pyapi
