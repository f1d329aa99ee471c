// What the probe hangs into the interpreter: hooks.py and the garbage collector's callback.
//
// One set for the process, everything static; with the GIL unless it says otherwise. A forked child
// has its parent's hooks, which write nowhere until the child is probed itself.
#pragma once

#include <cstdint>
#include <string>

#include "pyapi/python_api.h"

namespace probing::hooks {

using pyapi::PyObject;
using pyapi::PythonApi;

class Hooks {
 public:
  // Makes exactly these parts run: "gc,exceptions,loggers,memory" or "none", and with
  // ";SPEC;SHARE;NVTX;LOG;FOLDER" behind it the tracing of torch (wire/torch_spec.h), which may take that
  // share of the time, what nvtx.py does, the pattern of log_lines.py (its bytes in hexadecimal digits), and
  // the folder for snapshots of out-of-memory errors; "" for none. False when another thread is at it, or
  // Python does not let us; nothing is raised.
  static bool Configure(const PythonApi& api, const std::string& words);

  // Gets ready for Configure(), in steps of about a millisecond. True while there are more.
  static bool LoadSome(const PythonApi& api);

  // Takes everything out and drops all our objects. False when another thread is at it.
  static bool Remove(const PythonApi& api);

  // Whether something was imported since the hooks looked last, or an import was under way then.
  // Without the GIL: one number is read that may be about to change.
  static bool ModulesChanged(const PythonApi& api);
  // Lets the hooks look. Cheap.
  static void LookAtModules(const PythonApi& api);

  // Adds a row to python.memory. Cheap: what would take long is NULL.
  static void WriteMemory(const PythonApi& api);

  // Puts what census.py knows into the dict of lent.py.
  static void LendCensus(const PythonApi& api, PyObject* dict);

  // Whether exactly these parts run. Any thread.
  static bool Run(const std::string& words);

  // Of the threads that may have been at it only this one exists now.
  static void InForkedChild();
};

}  // namespace probing::hooks
