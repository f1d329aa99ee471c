// What torch.py gets of us, and the functions that are put around those of torch.
//
//   torch_start(rate, may_thin, max_overhead, modules, backward, looks, objects)   objects as
//   TorchTracer::Objects torch_around(what, function, any_function) -> bool   what: "call" for
//   nn.Module.__call__, "next" for
//                                          a data loader; any_function is one that nobody has touched
//   torch_stop()
//   torch_name(module, path, type, wanted), torch_forget(id)
//   torch_wrap_backward(backward, any_function) -> what to put in its place, or None
//   optimizer_begins(optimizer, …), optimizer_ended(optimizer, …)
//   update_begins(), update_ended(optimizer, updated)   around what calls an optimizer, or leaves it out
//   pass_begins(), pass_ended()            around what makes a backward pass and more
//   torch_number_is(number)                the job's own number of the step that runs
//   torch_looks_at_all() -> bool           each call of a module is looked at in this step
//   torch_trace_next()                     the next step is traced in full
//   torch_step() -> int                    the step that runs
//   torch_says(message)                    a row of python.spans
//   step(number)                           probing.step(); also for the package
#pragma once

#include "pyapi/python_api.h"

namespace probing::torch {

using pyapi::PyObject;
using pyapi::PythonApi;

// Puts these functions into a dict, or None for each where torch cannot be traced. False with a Python
// exception. With the GIL.
bool AddTorchFunctions(const PythonApi& api, PyObject* dict);
// Only step(number).
bool AddStepFunction(const PythonApi& api, PyObject* dict);

// Takes the functions away that are around those of torch. With the GIL.
void StopTorch(const PythonApi& api);
// Of the threads that were inside only this one exists now. No Python is touched.
void ForgetTorchInForkedChild();

}  // namespace probing::torch
