// Forgetting a namespace of ours: what it holds goes at once, and does not wait for the job's collector.
//
// Functions refer to their namespace, which refers to them, and a class refers to itself: only the collector
// finds such circles, and that of the job may come late, or never, if the job has switched it off. A job that
// is visited again and again would grow until then. So the circles are broken here, by what the collector
// itself would call.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Empties the namespace, and the classes that its function own_classes() (describe.py) names. Where that says
// None, somebody may still use some of it: all of it is left to whoever does. The caller keeps its reference.
// With the GIL; no exception is left.
void ForgetNamespace(const PythonApi& api, PyObject* names);

}  // namespace probing::pyapi
