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

// As every Python since 2.7 wants it.
struct PyMethodDef {
  const char* name;
  void* function;
  int flags;
  const char* doc;
};
inline constexpr int kMethVarargs = 0x01;
inline constexpr int kMethKeywords = 0x02;
inline constexpr int kMethNoargs = 0x04;
inline constexpr int kMethFastcall = 0x80;  // from 3.7 on

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
  void (*PyEval_SetTrace)(int (*function)(PyObject*, PyObject*, int, PyObject*), PyObject* argument);
  PyObject* (*Py_CompileString)(const char* source, const char* file_name, int start);
  PyObject* (*PyEval_EvalCode)(PyObject* code, PyObject* globals, PyObject* locals);
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
  void (*PyObject_GC_UnTrack)(void* object);
  PyObject** PyExc_KeyboardInterrupt;

  // For tables: making functions, reading values, raising errors.
  PyObject* (*PyCFunction_NewEx)(PyMethodDef* method, PyObject* self, PyObject* module);
  PyObject* (*PyCapsule_New)(void* pointer, const char* name, void (*destructor)(PyObject*));
  void* (*PyCapsule_GetPointer)(PyObject* capsule, const char* name);
  void (*Py_IncRef)(PyObject* object);
  PyObject* (*PyErr_Occurred)();
  void (*PyErr_SetString)(PyObject* exception, const char* message);
  int (*PyErr_ExceptionMatches)(PyObject* exception);
  long long (*PyLong_AsLongLongAndOverflow)(PyObject* number, int* overflow);
  double (*PyFloat_AsDouble)(PyObject* number);
  PyObject* (*PyNumber_Index)(PyObject* number);
  PyObject* (*PyNumber_Float)(PyObject* number);
  std::ptrdiff_t (*PyUnicode_GetLength)(PyObject* text);
  const char* (*PyUnicode_AsUTF8AndSize)(PyObject* text, std::ptrdiff_t* size);
  PyObject* (*PyUnicode_AsEncodedString)(PyObject* text, const char* encoding, const char* errors);
  PyObject* (*PyUnicode_FromStringAndSize)(const char* text, std::ptrdiff_t size);
  PyObject* (*PyBytes_FromObject)(PyObject* buffer);
  PyObject* (*PyObject_GetAttrString)(PyObject* object, const char* name);
  int (*PyType_IsSubtype)(PyObject* type, PyObject* base);
  std::ptrdiff_t (*PyTuple_Size)(PyObject* tuple);
  std::ptrdiff_t (*PySequence_Size)(PyObject* sequence);
  PyObject* (*PySequence_GetItem)(PyObject* sequence, std::ptrdiff_t index);  // a new reference
  PyObject* (*PyImport_GetModuleDict)();                                      // borrowed
  void (*PyDict_Clear)(PyObject* dict);
  PyObject* (*PyObject_GetAttr)(PyObject* object, PyObject* name);
  int (*PyObject_SetAttr)(PyObject* object, PyObject* name, PyObject* value);
  PyObject* (*PyObject_CallMethodObjArgs)(PyObject* object, PyObject* name, ...);
  PyObject* (*PyUnicode_InternFromString)(const char* text);
  PyObject* (*PySequence_Tuple)(PyObject* sequence);
  PyObject* (*PyObject_CallObject)(PyObject* callable, PyObject* arguments);
  int (*PyObject_SetItem)(PyObject* object, PyObject* key, PyObject* value);
  // For looks at the heap and at numbers.
  PyObject* (*PyFloat_FromDouble)(double value);
  PyObject* (*PyWeakref_NewRef)(PyObject* object, PyObject* callback);
  int (*PyList_Append)(PyObject* list, PyObject* item);
  int (*PyDict_Next)(PyObject* dict, std::ptrdiff_t* position, PyObject** key, PyObject** value);  // borrowed
  PyObject** PyExc_TypeError;
  PyObject** PyExc_ValueError;
  PyObject** PyExc_OverflowError;
  PyObject** PyExc_RuntimeError;
  PyObject* PyLong_Type;  // objects themselves, as are those below
  PyObject* PyFloat_Type;
  PyObject* PyBool_Type;
  PyObject* PyUnicode_Type;
  PyObject* PyBytes_Type;
  PyObject* PyTuple_Type;
  PyObject* PyList_Type;
  PyObject* PyDict_Type;
  PyObject* PyFrozenSet_Type;
  PyObject* PyFunction_Type;
  PyObject* _Py_NoneStruct;
  PyObject* _Py_TrueStruct;
  PyObject* _Py_FalseStruct;

  // Optional.
  int (*PyEval_ThreadsInitialized)();                                      // needed up to 3.6
  void (*PyEval_InitThreads)();                                            // needed up to 3.6
  const char* _PyRuntime;                                                  // 3.7+; its bytes
  int (*_Py_IsFinalizing)();                                               // 3.7–3.12
  int (*Py_IsFinalizing)();                                                // 3.13+
  void* (*PyInterpreterState_Main)();                                      // 3.7+
  PyObject* (*PyInterpreterState_GetDict)(void* interpreter);              // 3.8+; borrowed
  void (*PyFunction_SetVectorcall)(PyObject* function, void* vectorcall);  // 3.12+
  void (*PyFrame_LocalsToFast)(PyObject* frame, int clear);                // does something up to 3.12
  PyThreadState* (*PyThreadState_Swap)(PyThreadState* state);              // for tracing, up to 3.11
  PyThreadState* (*PyInterpreterState_ThreadHead)(void*);                  // the same
  PyThreadState* (*PyThreadState_Next)(PyThreadState* state);              // the same
  PyObject* (*PyEval_GetFrame)();                                          // borrowed
  int (*PyGILState_Check)();                                               // 3.4+

  // True while Python code may be run: initialised and not on its way out.
  bool Usable() const;
  // "3.11.7"
  std::string Version() const;
  // 311 for 3.11.x
  int VersionNumber() const;

  // Where an object has its type: free-threaded builds have more in front of it. Found out by
  // looking at a known object.
  std::size_t type_offset;
  PyObject* TypeOf(const PyObject* object) const {
    return *reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(object) + type_offset);
  }
  // Free-threaded: no lock orders what threads do with our code.
  bool HasGil() const { return type_offset == 8; }
};

// The Python of this process, or null when there is none (yet). Thread-safe; cheap once found.
const PythonApi* FindPython();

}  // namespace probing::pyapi
