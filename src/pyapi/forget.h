// Forgetting classes of ours: what they hold goes at once, and does not wait for the job's collector.
//
// Functions refer to their namespace, which refers to them, and a class refers to itself: only the collector
// finds such circles, and that of the job may come late, or never, if the job has switched it off. A job that
// is visited again and again would grow until then. So the circles are broken here, by what the collector
// itself would call.
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Those of a tuple. With the GIL; no exception is left.
void EmptyClasses(const PythonApi& api, PyObject* classes);

}  // namespace probing::pyapi
