#include "pyapi/python_api.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/file.h"
#include "process/elf_image.h"
#include "process/maps.h"

namespace probing::pyapi {
namespace {

// Looks symbols up in the memory of this process, like somebody outside would. dlsym does not do:
// it waits for the loader's lock, which the job may hold for long, and does not see a libpython
// that was loaded with RTLD_LOCAL.
//
// A process may have several libpythons of which one runs: a library may link or load another. Functions of
// the wrong one would work on the data of the right one, because that is how the loader binds them, and
// crash.
class Symbols {
 public:
  // False when no object of this process has a Python in it, or several have and none runs (yet).
  bool Find() {
    auto maps = process::Maps::Read(getpid());
    if (!maps.ok()) return false;
    const std::vector<process::Maps::Object> objects = maps->Objects();
    auto exe = ReadLink("/proc/self/exe");
    for (const auto& object : objects) {
      if (exe.ok() && object.path == *exe) program_ = Load(object);
    }
    if (program_ && Consider(*program_)) return true;
    for (const Likely likely : {Likely::kByName, Likely::kOther}) {
      for (const auto& object : objects) {
        const bool by_name = object.path.find("python") != std::string::npos;
        if (by_name != (likely == Likely::kByName) || (exe.ok() && object.path == *exe)) continue;
        auto image = Load(object);
        if (image && Consider(*image)) return true;
      }
    }
    return idle_ == 1;
  }

  // The program's own variables come first, as for the loader: it may have copies of those of the library.
  void* Address(const char* name) const {
    if (program_ && !IsPython(*program_)) {
      if (void* address = In(*program_, name)) return address;
    }
    return python_ ? In(*python_, name) : nullptr;
  }

 private:
  enum class Likely : std::uint8_t { kByName, kOther };

  static void* In(const process::ElfImage& image, const char* name) {
    auto address = image.FindSymbol(name);
    return address.ok() ? reinterpret_cast<void*>(address->address) : nullptr;
  }

  static bool IsPython(const process::ElfImage& image) { return In(image, "Py_IsInitialized") != nullptr; }

  // Whether the Python in this image runs. What its functions say is not enough: they may look at the data of
  // another one. Its own data must have the interpreter, too; 3.6 keeps that to itself.
  bool IsLive(const process::ElfImage& image) const {
    const auto initialized = reinterpret_cast<int (*)()>(In(image, "Py_IsInitialized"));
    if (initialized() == 0) return false;
    const auto main = reinterpret_cast<void* (*)()>(In(image, "PyInterpreterState_Main"));
    const auto runtime = image.FindSymbol("_PyRuntime");
    if (main == nullptr || !runtime.ok()) return true;
    return HasWord(*runtime, reinterpret_cast<std::uint64_t>(main()));
  }

  // Whether a structure has this pointer near its beginning, where the list of interpreters is.
  bool HasWord(process::RemoteAddress at, std::uint64_t word) const {
    constexpr std::size_t kMostWords = 512;
    constexpr std::size_t kFewestWords = 32;
    std::array<std::uint64_t, kMostWords> words;
    for (std::size_t count = kMostWords; count >= kFewestWords;
         count /= 2) {  // it may be the last in its mapping
      const std::span some(words.data(), count);
      if (!memory_.Read(at, std::as_writable_bytes(some)).ok()) continue;
      return word != 0 && std::find(some.begin(), some.end(), word) != some.end();
    }
    return false;
  }

  // True when this is the Python to use. The first that does not run is kept for the case that it is the only
  // one.
  bool Consider(const process::ElfImage& image) {
    if (!IsPython(image)) return false;
    const bool is_live = IsLive(image);
    if (is_live || idle_ == 0) python_ = image;
    if (!is_live) ++idle_;
    return is_live;
  }

  std::optional<process::ElfImage> Load(const process::Maps::Object& object) const {
    auto image = process::ElfImage::Load(memory_, {object.base});
    if (!image.ok()) return std::nullopt;
    return std::move(*image);
  }

  const process::ProcessMemory memory_{getpid()};
  std::optional<process::ElfImage> program_;
  std::optional<process::ElfImage> python_;
  int idle_ = 0;  // Pythons that do not run
};

// Of True and its type both addresses are known, before Python is initialised even.
std::size_t FindTypeOffset(const PythonApi& api) {
  constexpr std::size_t kMostWordsBefore = 4;
  const auto* words = reinterpret_cast<PyObject* const*>(api._Py_TrueStruct);
  for (std::size_t i = 1; i < kMostWordsBefore; ++i) {
    if (words[i] == api.PyBool_Type) return i * sizeof(void*);
  }
  return 0;
}

bool Load(PythonApi& api) {
  Symbols symbols;
  if (!symbols.Find()) return false;
  bool complete = true;
  const auto find = [&](auto& member, const char* name, bool required) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(symbols.Address(name));
    if (required && member == nullptr) complete = false;
  };
#define PROBING_REQUIRED(name) find(api.name, #name, true)
#define PROBING_OPTIONAL(name) find(api.name, #name, false)
  PROBING_REQUIRED(Py_IsInitialized);
  PROBING_REQUIRED(Py_GetVersion);
  PROBING_REQUIRED(PyGILState_Ensure);
  PROBING_REQUIRED(PyGILState_Release);
  PROBING_REQUIRED(PyEval_SaveThread);
  PROBING_REQUIRED(PyEval_RestoreThread);
  PROBING_REQUIRED(Py_AddPendingCall);
  PROBING_REQUIRED(PyThreadState_SetAsyncExc);
  PROBING_REQUIRED(PyEval_SetTrace);
  PROBING_REQUIRED(Py_CompileString);
  PROBING_REQUIRED(PyEval_EvalCode);
  PROBING_REQUIRED(PyDict_New);
  PROBING_REQUIRED(PyDict_GetItemString);
  PROBING_REQUIRED(PyDict_SetItemString);
  PROBING_REQUIRED(PyEval_GetBuiltins);
  PROBING_REQUIRED(PyObject_CallFunctionObjArgs);
  PROBING_REQUIRED(PyBytes_FromStringAndSize);
  PROBING_REQUIRED(PyBytes_AsStringAndSize);
  PROBING_REQUIRED(PyLong_FromLongLong);
  PROBING_REQUIRED(PyTuple_GetItem);
  PROBING_REQUIRED(PyErr_Clear);
  PROBING_REQUIRED(Py_DecRef);
  PROBING_REQUIRED(PyObject_GC_UnTrack);
  PROBING_REQUIRED(PyExc_KeyboardInterrupt);
  PROBING_REQUIRED(PyCFunction_NewEx);
  PROBING_REQUIRED(PyCapsule_New);
  PROBING_REQUIRED(PyCapsule_GetPointer);
  PROBING_REQUIRED(Py_IncRef);
  PROBING_REQUIRED(PyErr_Occurred);
  PROBING_REQUIRED(PyErr_SetString);
  PROBING_REQUIRED(PyErr_ExceptionMatches);
  PROBING_REQUIRED(PyLong_AsLongLongAndOverflow);
  PROBING_REQUIRED(PyFloat_AsDouble);
  PROBING_REQUIRED(PyNumber_Index);
  PROBING_REQUIRED(PyNumber_Float);
  PROBING_REQUIRED(PyUnicode_GetLength);
  PROBING_REQUIRED(PyUnicode_AsUTF8AndSize);
  PROBING_REQUIRED(PyUnicode_AsEncodedString);
  PROBING_REQUIRED(PyUnicode_FromStringAndSize);
  PROBING_REQUIRED(PyBytes_FromObject);
  PROBING_REQUIRED(PyObject_GetAttrString);
  PROBING_REQUIRED(PyType_IsSubtype);
  PROBING_REQUIRED(PyTuple_Size);
  PROBING_REQUIRED(PySequence_Size);
  PROBING_REQUIRED(PySequence_GetItem);
  PROBING_REQUIRED(PyImport_GetModuleDict);
  PROBING_REQUIRED(PyDict_Clear);
  PROBING_REQUIRED(PyObject_GetAttr);
  PROBING_REQUIRED(PyObject_SetAttr);
  PROBING_REQUIRED(PyObject_CallMethodObjArgs);
  PROBING_REQUIRED(PyUnicode_InternFromString);
  PROBING_REQUIRED(PySequence_Tuple);
  PROBING_REQUIRED(PyObject_CallObject);
  PROBING_REQUIRED(PyObject_SetItem);
  PROBING_REQUIRED(PyFloat_FromDouble);
  PROBING_REQUIRED(PyWeakref_NewRef);
  PROBING_REQUIRED(PyList_Append);
  PROBING_REQUIRED(PyDict_Next);
  PROBING_REQUIRED(PyExc_TypeError);
  PROBING_REQUIRED(PyExc_ValueError);
  PROBING_REQUIRED(PyExc_OverflowError);
  PROBING_REQUIRED(PyExc_RuntimeError);
  PROBING_REQUIRED(PyLong_Type);
  PROBING_REQUIRED(PyFloat_Type);
  PROBING_REQUIRED(PyBool_Type);
  PROBING_REQUIRED(PyUnicode_Type);
  PROBING_REQUIRED(PyBytes_Type);
  PROBING_REQUIRED(PyTuple_Type);
  PROBING_REQUIRED(PyList_Type);
  PROBING_REQUIRED(PyDict_Type);
  PROBING_REQUIRED(PyFrozenSet_Type);
  PROBING_REQUIRED(PyFunction_Type);
  PROBING_REQUIRED(_Py_NoneStruct);
  PROBING_REQUIRED(_Py_TrueStruct);
  PROBING_REQUIRED(_Py_FalseStruct);
  PROBING_OPTIONAL(PyEval_ThreadsInitialized);
  PROBING_OPTIONAL(PyEval_InitThreads);
  PROBING_OPTIONAL(_PyRuntime);
  PROBING_OPTIONAL(_Py_IsFinalizing);
  PROBING_OPTIONAL(Py_IsFinalizing);
  PROBING_OPTIONAL(PyInterpreterState_Main);
  PROBING_OPTIONAL(PyInterpreterState_GetDict);
  PROBING_OPTIONAL(PyFunction_SetVectorcall);
  PROBING_OPTIONAL(PyFrame_LocalsToFast);
  PROBING_OPTIONAL(PyThreadState_Swap);
  PROBING_OPTIONAL(PyInterpreterState_ThreadHead);
  PROBING_OPTIONAL(PyThreadState_Next);
  PROBING_OPTIONAL(PyEval_GetFrame);
  PROBING_OPTIONAL(PyGILState_Check);
#undef PROBING_REQUIRED
#undef PROBING_OPTIONAL
  if (complete) api.type_offset = FindTypeOffset(api);
  return complete;
}

}  // namespace

bool PythonApi::Usable() const {
  if (Py_IsInitialized() == 0) return false;
  if (Py_IsFinalizing != nullptr) return Py_IsFinalizing() == 0;
  if (_Py_IsFinalizing != nullptr) return _Py_IsFinalizing() == 0;
  return true;
}

std::string PythonApi::Version() const {
  const std::string text = Py_GetVersion();
  return text.substr(0, text.find(' '));
}

int PythonApi::VersionNumber() const {
  const char* text = Py_GetVersion();
  const char* dot = std::strchr(text, '.');
  return std::atoi(text) * 100 + (dot == nullptr ? 0 : std::atoi(dot + 1));
}

const PythonApi* FindPython() {
  // Filled once and never freed: plain data, so that nothing has to be destroyed at exit.
  static PythonApi api;
  static std::atomic<bool> found{false};
  if (found.load(std::memory_order_acquire)) return &api;
  PythonApi candidate{};
  if (!Load(candidate)) return nullptr;
  api = candidate;
  found.store(true, std::memory_order_release);
  return &api;
}

}  // namespace probing::pyapi
