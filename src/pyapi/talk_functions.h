// Functions for the Python code that talks with users: sessions, log points, the debugger.
//
//   store_local(frame, name, value) -> bool      changes a local variable of a frame that is under way
//   trace_thread(frame, function) -> bool        sys.settrace(function) on the thread whose innermost
//                                                frame this is; up to 3.11, where Python has no other way
//   make_line_gate(callback, disable) -> function  a callback of sys.monitoring for lines: calls
//                                                callback(code, line, slot) when a slot is due; one at a
//                                                time, and None as callback ends it
//   gate_slot(slot, code, line, period_ns)       opens a slot of it; None as code closes it
//   emit(is_error, bytes)                        prints to the client of the evaluation under way
//   lease_age_ms() -> int, note_stop()           see debugger_lease.h
#pragma once

#include "pyapi/python_api.h"

namespace probing::pyapi {

// Puts these functions, and those of native.h, into a dict. False with a Python exception. With the GIL.
bool AddTalkFunctions(const PythonApi& api, PyObject* dict);

}  // namespace probing::pyapi
