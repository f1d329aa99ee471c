#include "pyapi/forget.h"

#include <cstring>

namespace probing::pyapi {
namespace {

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

}  // namespace

void EmptyClasses(const PythonApi& api, PyObject* classes) {
  if (api.type_offset == 0 || api.TypeOf(classes) != api.PyTuple_Type) return;
  const std::ptrdiff_t count = api.PyTuple_Size(classes);
  for (std::ptrdiff_t i = 0; i < count; ++i) EmptyClass(api, api.PyTuple_GetItem(classes, i));
}

}  // namespace probing::pyapi
