// Functions of ours that Python code can call and keep.
//
// A Python object that points into this library must not outlive it. Every function made here has a
// capsule as its `self`, and a capsule tells when it dies; as long as one lives, the library has to
// stay where it is. All with the GIL.
#pragma once

#include <atomic>

#include "pyapi/python_api.h"

namespace probing::pyapi {

// A new reference, or null with a Python exception. `data` must not be null; Data() gives it back to
// the function. `method` must live as long as the library.
PyObject* MakeFunction(const PythonApi& api, PyMethodDef* method, void* data);
// One that stands for another: FunctionData() is the original, which lives as long. Says it is of the same
// module.
PyObject* MakeWrapper(const PythonApi& api, PyMethodDef* method, PyObject* original);
// MakeFunction(), put into a dict under its name. False with a Python exception.
bool AddFunction(const PythonApi& api, PyObject* dict, PyMethodDef* method, void* data);
void* FunctionData(const PythonApi& api, PyObject* self);

// Whether somebody still has one of our functions. Where there is no GIL it stays true once one was
// made: nothing says when the last thread has left it.
bool FunctionsAlive();
// Whether there ever was one. Without the GIL.
bool FunctionsMade();

// A call of the job that goes through code of ours without a function object: as long as one exists, the
// library has to stay. Hot: two plain additions.
class CallInside {
 public:
  CallInside() { Add(1); }
  ~CallInside() {
    Add(-1);
    if (awaits_last_.load(std::memory_order_relaxed)) TellIfLast();
  }
  CallInside(const CallInside&) = delete;
  CallInside& operator=(const CallInside&) = delete;

  static bool Any() { return count_.load(std::memory_order_relaxed) != 0; }

  // Calls `last` once, on a thread of the job with the GIL, as soon as the last function and the last call
  // are gone; at once when they are. Null: nothing is waited for any more. Without the GIL.
  static void WhenAllAreGone(void (*last)());

 private:
  // Only with the GIL, so that no atomic addition is needed.
  static void Add(int one) {
    count_.store(count_.load(std::memory_order_relaxed) + one, std::memory_order_relaxed);
  }
  static void TellIfLast();

  static inline std::atomic<int> count_{0};
  static inline std::atomic<bool> awaits_last_{false};
};

// Native code has got a table, and with it code of ours, which it never gives back. Counts as a function
// that is alive. Without the GIL.
void KeepForNativeCode();
bool NativeCodeHasTables();

}  // namespace probing::pyapi
