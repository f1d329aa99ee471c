// Functions for the Python code that talks with users: sessions, log points, the debugger.
//
//   store_local(frame, name, value) -> bool      changes a local variable of a frame that is under way
//   trace_thread(frame, function) -> bool        sys.settrace(function) on the thread whose innermost
//                                                frame this is; up to 3.11, where Python has no other way
//   set_when_due(function)                       calls function(slot) when a slot is due; None: nobody
//   gate_slot(slot, code, line, period_ns)       opens a slot; None as code closes it
//   make_line_gate(disable) -> function          asks the slots of a line: a callback of sys.monitoring
//   make_hit_gate(slot) -> function              asks this slot, when it is called
//   emit(is_error, bytes)                        prints to the client of the evaluation under way
//   lease_age_ms() -> int, note_stop()           see debugger_lease.h
#pragma once

#include "pyapi/python_api.h"

namespace probing::console {

using pyapi::PyObject;
using pyapi::PythonApi;

// Puts these functions, and those of native.h, into a dict. False with a Python exception. With the GIL.
bool AddTalkFunctions(const PythonApi& api, PyObject* dict);

}  // namespace probing::console
