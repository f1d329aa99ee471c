#include "pyapi/embedded.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "base/own_code.h"
#include "embedded/sources.h"
#include "pyapi/functions.h"
#include "pyapi/ref.h"

namespace probing::pyapi {
namespace {

static_assert(std::string_view(embedded::kSources[0].name) == "own");
constexpr std::size_t kNone = embedded::kSources.size();
constexpr int kFileInput = 257;           // Py_file_input
constexpr char kNameOfAll[] = "probing";  // of classes, so that they can be told from others

std::size_t NumberOf(std::string_view module) {
  for (std::size_t i = 0; i < embedded::kSources.size(); ++i) {
    if (module == embedded::kSources[i].name) return i;
  }
  return kNone;
}

// Takes the first word off the text.
std::string_view NextWord(std::string_view* text) {
  const std::string_view word = text->substr(0, text->find(' '));
  text->remove_prefix(word.size() == text->size() ? word.size() : word.size() + 1);
  return word;
}

// ── how they go ──

// Functions refer to their namespace, which refers to them, and a class refers to itself: only the collector
// finds such circles, and that of the job may come late, or never, if the job has switched it off. A job that
// is visited again and again would grow until then. So the circles are broken here, by what the collector
// itself would call.

// Of PyTypeObject, from where an object has its own type; the same since 3.6.
constexpr std::size_t kFlags = 20 * sizeof(void*);
constexpr std::size_t kClear = 23 * sizeof(void*);
constexpr unsigned long kMadeByClassStatement = 1UL << 9;  // Py_TPFLAGS_HEAPTYPE

template <typename Field>
Field FieldOf(const PythonApi& api, const PyObject* type, std::size_t offset) {
  Field field{};
  std::memcpy(&field, reinterpret_cast<const char*>(type) + api.type_offset + offset, sizeof(field));
  return field;
}

void EmptyClass(const PythonApi& api, PyObject* type) {
  const PyObject* kind = api.TypeOf(type);
  if (kind != api.TypeOf(api.PyLong_Type)) return;  // not `type` itself
  if ((FieldOf<unsigned long>(api, type, kFlags) & kMadeByClassStatement) == 0) return;
  auto* clear = FieldOf<int (*)(PyObject*)>(api, kind, kClear);
  if (clear != nullptr) clear(type);
}

// Those of a tuple. No exception is left.
void EmptyClasses(const PythonApi& api, PyObject* classes) {
  if (api.type_offset == 0 || api.TypeOf(classes) != api.PyTuple_Type) return;
  const std::ptrdiff_t count = api.PyTuple_Size(classes);
  for (std::ptrdiff_t i = 0; i < count; ++i) EmptyClass(api, api.PyTuple_GetItem(classes, i));
}

}  // namespace

PyObject* EmbeddedModules::Names(const char* module) const {
  const std::size_t number = NumberOf(module);
  return number == kNone ? nullptr : names_[number];
}

PyObject* EmbeddedModules::Find(const PythonApi& api, const char* module, const char* name) const {
  PyObject* names = Names(module);
  return names == nullptr ? nullptr : api.PyDict_GetItemString(names, name);
}

Ref EmbeddedModules::Call(const PythonApi& api, const char* module, const char* name, PyObject* first) const {
  PyObject* function = Find(api, module, name);
  if (function == nullptr) return {};
  Ref result = Ref::New(api, api.PyObject_CallFunctionObjArgs(function, first, nullptr));
  api.PyErr_Clear();
  return result;
}

// The innermost module that this one needs and that is not loaded; kNone when there is none. Two that import
// each other at their tops would be an error, and are not followed in circles.
std::size_t EmbeddedModules::NextToLoad(std::size_t module, std::array<bool, kMost>& seen) const {
  if (std::exchange(seen[module], true) || names_[module] != nullptr) return kNone;
  std::string_view imports = embedded::kSources[module].imports;
  while (!imports.empty()) {
    const std::size_t wanted = NumberOf(NextWord(&imports));
    const std::size_t next = wanted == kNone ? kNone : NextToLoad(wanted, seen);
    if (next != kNone) return next;
  }
  return module;
}

EmbeddedModules::Progress EmbeddedModules::LoadNext(const PythonApi& api, const char* module) {
  static_assert(embedded::kSources.size() <= kMost);
  const std::size_t wanted = NumberOf(module);
  if (wanted == kNone) {
    api.PyErr_SetString(*api.PyExc_RuntimeError, "the probe has no such module");
    return Progress::kFailed;
  }
  std::array<bool, kMost> seen{};
  const std::size_t next = empty() ? 0 : NextToLoad(wanted, seen);
  if (next == kNone) return Progress::kLoaded;
  if (!LoadOne(api, next)) return Progress::kFailed;
  return next == wanted ? Progress::kLoaded : Progress::kMore;
}

bool EmbeddedModules::Load(const PythonApi& api, const char* module) {
  Progress progress = Progress::kMore;
  while (progress == Progress::kMore) progress = LoadNext(api, module);
  return progress == Progress::kLoaded;
}

bool EmbeddedModules::LoadOne(const PythonApi& api, std::size_t module) {
  Ref names = Ref::New(api, api.PyDict_New());
  if (!names || !Fill(api, module, names.get())) return false;
  names_[module] = names.release();
  return true;
}

bool EmbeddedModules::Fill(const PythonApi& api, std::size_t module, PyObject* names) {
  const embedded::Source& source = embedded::kSources[module];
  PyObject* const own = module == 0 ? names : names_[0];
  const Ref name = Ref::New(api, api.PyUnicode_FromStringAndSize(kNameOfAll, sizeof(kNameOfAll) - 1));
  if (!name || api.PyDict_SetItemString(names, "__name__", name.get()) != 0 ||
      api.PyDict_SetItemString(names, "__builtins__", api.PyEval_GetBuiltins()) != 0)
    return false;
  if (module != 0 &&
      api.PyDict_SetItemString(names, "own_import", api.PyDict_GetItemString(own, "own_import")) != 0)
    return false;
  // By its file name our code is left out of the job's stacks.
  const Ref code = Ref::New(api, api.Py_CompileString(source.text, kOwnPythonFile, kFileInput));
  if (!code) return false;
  const Ref done = Ref::New(api, api.PyEval_EvalCode(code.get(), names, names));
  if (!done) return false;
  for (const NativeContent& content : contents_) {
    if (std::string_view(content.module) == source.name && !content.add(api, names)) return false;
  }
  return api.PyDict_SetItemString(api.PyDict_GetItemString(own, "modules"), source.name, names) == 0;
}

PyObject* EmbeddedModules::LoadModule(PyObject* self, PyObject* arguments) {
  const PythonApi& api = *FindPython();
  auto* modules = static_cast<EmbeddedModules*>(FunctionData(api, self));
  PyObject* module = api.PyTuple_GetItem(arguments, 0);
  const char* text = module == nullptr ? nullptr : api.PyUnicode_AsUTF8AndSize(module, nullptr);
  if (text == nullptr || !modules->Load(api, text)) return nullptr;
  return NewNone(api);
}

bool EmbeddedModules::AddLoader(const PythonApi& api) {
  static PyMethodDef method{"load_module", reinterpret_cast<void*>(&LoadModule), kMethVarargs, nullptr};
  return Load(api, "native") && AddFunction(api, Names("native"), &method, this);
}

void EmbeddedModules::Forget(const PythonApi& api) {
  if (empty()) return;
  const Ref classes = Call(api, "own", "own_classes");
  const bool needed = classes.get() == api._Py_NoneStruct;
  if (needed) (void)Call(api, "own", "drop_functions");
  // First all namespaces: objects of the classes are in them.
  for (PyObject*& names : names_) {
    const Ref gone = Ref::New(api, std::exchange(names, nullptr));
    if (gone && !needed) api.PyDict_Clear(gone.get());
  }
  if (classes) EmptyClasses(api, classes.get());
}

}  // namespace probing::pyapi
