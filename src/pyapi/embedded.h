// The Python code of src/embedded, as modules that only we see.
//
// Each file is a module: it has a namespace of its own and says with `from .heap import Pace` what it wants
// of others. sys.modules does not have them, and the job's import system takes no part: CMakeLists.txt makes
// a call of own_import() (own.py) of each such line. What a file imports at its top is loaded before it; what
// a function imports, when the function comes to it. `native` is a module that C++ code fills.
//
// There are several sets of modules: that of the hooks, whose code runs on threads of the job, that of the
// evaluator, and a small one for the end of the interpreter. What two sets have in common (describe.py,
// heap.py) exists twice.
//
// All with the GIL; one thread at a time uses a set.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "pyapi/python_api.h"
#include "pyapi/ref.h"

namespace probing::pyapi {

// What C++ code adds to a module when its own code has run and nothing has imported it yet. False with a
// Python exception.
struct NativeContent {
  const char* module;
  bool (*add)(const PythonApi& api, PyObject* names);
};

class EmbeddedModules {
 public:
  constexpr explicit EmbeddedModules(std::span<const NativeContent> contents) : contents_(contents) {}

  bool empty() const { return names_[0] == nullptr; }

  // Loads a module with all that it needs. False with a Python exception; the next call goes on from there.
  bool Load(const PythonApi& api, const char* module);

  // The same, one module at a time: each takes up to a millisecond, and the job waits meanwhile if it wants
  // the GIL.
  enum class Progress { kMore, kLoaded, kFailed };
  Progress LoadNext(const PythonApi& api, const char* module);

  // From now on functions load what they import. Code that may keep none of our functions goes without.
  bool AddLoader(const PythonApi& api);

  // Borrowed; null when it is not loaded, without an exception.
  PyObject* Names(const char* module) const;
  PyObject* Find(const PythonApi& api, const char* module, const char* name) const;

  // Calls module.name(first) when there is such a function. Its result, or none; no exception is left.
  Ref Call(const PythonApi& api, const char* module, const char* name, PyObject* first = nullptr) const;

  // Empties all of them, and what own_classes() of own.py names. Where code of the job may still
  // need some of it, all is left to that code, but no function of the library.
  void Forget(const PythonApi& api);

 private:
  static constexpr std::size_t kMost = 96;
  static PyObject* LoadModule(PyObject* self, PyObject* arguments);
  std::size_t NextToLoad(std::size_t module, std::array<bool, kMost>& seen) const;
  bool LoadOne(const PythonApi& api, std::size_t module);
  bool Fill(const PythonApi& api, std::size_t module, PyObject* names);

  std::span<const NativeContent> contents_;
  // Namespaces by the number of the module; the first is that of own.py.
  std::array<PyObject*, kMost> names_{};
};

}  // namespace probing::pyapi
