// The functions of the Python in this process, by name and at run time.
//
// libprobing.so links no libpython: the same file serves 3.6 to 3.14, statically linked
// interpreters, shared ones and those that a program loads later.
#pragma once

#include <cstddef>
#include <string>

namespace probing::pyapi {

struct PyObject;       // never looked into
struct PyThreadState;  // never looked into

// Every member is a symbol of the same name. Optional ones may be null.
struct PythonApi {
  int (*Py_IsInitialized)();
  const char* (*Py_GetVersion)();
  int (*PyGILState_Ensure)();
  void (*PyGILState_Release)(int state);
  PyThreadState* (*PyEval_SaveThread)();
  void (*PyEval_RestoreThread)(PyThreadState* state);
  int (*Py_AddPendingCall)(int (*function)(void*), void* argument);
  int (*PyThreadState_SetAsyncExc)(unsigned long thread, PyObject* exception);
  PyObject* (*PyRun_String)(const char* source, int start, PyObject* globals, PyObject* locals);
  PyObject* (*PyDict_New)();
  PyObject* (*PyDict_GetItemString)(PyObject* dict, const char* key);
  int (*PyDict_SetItemString)(PyObject* dict, const char* key, PyObject* value);
  PyObject* (*PyEval_GetBuiltins)();
  PyObject* (*PyObject_CallFunctionObjArgs)(PyObject* callable, ...);
  PyObject* (*PyBytes_FromStringAndSize)(const char* text, std::ptrdiff_t size);
  int (*PyBytes_AsStringAndSize)(PyObject* bytes, char** text, std::ptrdiff_t* size);
  PyObject* (*PyLong_FromLongLong)(long long value);
  PyObject* (*PyTuple_GetItem)(PyObject* tuple, std::ptrdiff_t index);
  void (*PyErr_Clear)();
  void (*Py_DecRef)(PyObject* object);
  PyObject** PyExc_KeyboardInterrupt;

  // Optional.
  int (*PyEval_ThreadsInitialized)();     // needed up to 3.6
  void (*PyEval_InitThreads)();           // needed up to 3.6
  int (*_Py_IsFinalizing)();              // 3.7–3.12
  int (*Py_IsFinalizing)();               // 3.13+
  void* (*PyInterpreterState_Main)();     // 3.7+
  void (*_PyEval_SignalReceived)(void*);  // up to 3.12; takes no argument before 3.9

  // True while Python code may be run: initialised and not on its way out.
  bool Usable() const;
  // "3.11.7"
  std::string Version() const;
  // 311 for 3.11.x
  int VersionNumber() const;
};

// The Python of this process, or null when there is none (yet). Thread-safe; cheap once found.
const PythonApi* FindPython();

}  // namespace probing::pyapi
