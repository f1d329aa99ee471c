#include "torch/function_patch.h"

#include "pyapi/ref.h"

namespace probing::torch {
namespace {

// PyTypeObject begins with its head, a size, and tp_name, tp_basicsize, tp_itemsize, tp_dealloc; then
// comes tp_vectorcall_offset, the same in all versions that have it.
Vectorcall* PointerOf(const PythonApi& api, PyObject* function) {
  constexpr std::size_t kWordsBefore = 1 + 1 + 4;  // the head's last word is the type
  const char* field =
      reinterpret_cast<const char*>(api.PyFunction_Type) + api.type_offset + kWordsBefore * sizeof(void*);
  const std::ptrdiff_t offset = *reinterpret_cast<const std::ptrdiff_t*>(field);
  constexpr std::ptrdiff_t kMostBytes = 512;
  if (offset <= 0 || offset >= kMostBytes || offset % static_cast<std::ptrdiff_t>(sizeof(void*)) != 0) {
    return nullptr;
  }
  return reinterpret_cast<Vectorcall*>(reinterpret_cast<char*>(function) + offset);
}

void Store(const PythonApi& api, PyObject* function, Vectorcall* pointer, Vectorcall value) {
  if (api.PyFunction_SetVectorcall != nullptr) {  // which also says so to specialised call sites
    api.PyFunction_SetVectorcall(function, reinterpret_cast<void*>(value));
  } else {
    __atomic_store_n(pointer, value, __ATOMIC_RELEASE);
  }
}

}  // namespace

bool IsPlainFunction(const PythonApi& api, PyObject* function, PyObject* plain) {
  constexpr int kFirstWithVectorcall = 308;
  if (!api.HasGil() || api.VersionNumber() < kFirstWithVectorcall) return false;
  for (const PyObject* object : {function, plain}) {
    if (api.TypeOf(object) != api.PyFunction_Type) return false;
  }
  const Vectorcall* pointer = PointerOf(api, function);
  const Vectorcall* known = PointerOf(api, plain);
  if (pointer == nullptr || known == nullptr || *known == nullptr || *pointer != *known) return false;
  plain_vectorcall = *known;
  return true;
}

bool FunctionPatch::Install(const PythonApi& api, PyObject* function, PyObject* plain,
                            Vectorcall replacement) {
  if (function_ != nullptr || !IsPlainFunction(api, function, plain)) return false;
  function_ = pyapi::NewRef(api, function);
  pointer_ = PointerOf(api, function);
  replacement_ = replacement;
  Store(api, function, pointer_, replacement);
  return true;
}

void FunctionPatch::Exchange(const PythonApi& api, Vectorcall expected, Vectorcall value) {
  if (function_ != nullptr && *pointer_ == expected) Store(api, function_, pointer_, value);
}

void FunctionPatch::Pause(const PythonApi& api) { Exchange(api, replacement_, plain_vectorcall); }
void FunctionPatch::Resume(const PythonApi& api) { Exchange(api, plain_vectorcall, replacement_); }

void FunctionPatch::Remove(const PythonApi& api) {
  if (function_ == nullptr) return;
  Pause(api);
  const pyapi::Ref gone = pyapi::Ref::New(api, std::exchange(function_, nullptr));
}

}  // namespace probing::torch
