// What still.py gets of us: looks at gradients, and at the numbers of tensors, that cannot end the job.
//
// A backward pass runs in native code without the GIL and replaces .grad: reading it meanwhile is a use after
// free. But a pass begins in Python code. So as long as we have the GIL, and no thread of the job was in a
// pass when we looked, none can begin: within one call of native code that never lets the GIL go, .grad can
// be taken, and from then on we own a reference. Threads are looked at by their Python frames: one whose
// functions mention run_backward, or whose innermost function may be setting a gradient (it mentions grad:
// `p.grad = None` lets the GIL go half-way) or changing the memory of tensors (resize_, set_), makes the
// moment unfit.
//
//   when_still(otherwise, function, *arguments)     function(*arguments), or `otherwise` when the moment is
//                                                   unfit. The function must be native and keep the GIL.
//   when_outside(otherwise, name, function, *arguments)     the same, when no thread but this one is in a
//                                                   function that mentions the name: a dict that such a
//                                                   function goes through can be changed in place.
//   numbers_of(otherwise, tensor, getter, dtypes, first)     of the tensor, or of what getter(tensor) returns
//     -> None when these numbers are not in this process's memory, or
//        (next, count, sum, sum of squares, not finite, smallest, largest, tensor)
//     The numbers from `first` on, for a few milliseconds; `next` is where to go on, with the tensor that is
//     returned, until it is `count`. Read by loops of ours and not by torch: no thread pool, no allocation,
//     no change of autograd's state, no GIL that is let go.
#pragma once

#include "pyapi/python_api.h"

namespace probing::console {

using pyapi::PyObject;
using pyapi::PythonApi;

// With the GIL. False with a Python exception.
bool AddStillFunctions(const PythonApi& api, PyObject* dict);

}  // namespace probing::console
