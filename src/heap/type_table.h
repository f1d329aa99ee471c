// The classes of a target's objects: how big an object is, and where the references in it are.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>

#include "cpython/object_types.h"
#include "heap/chunks.h"

namespace probing::heap {

// How the references of an object are found. Classes made of one of these have their own fields behind it.
enum class Shape : std::uint8_t {
  kPlain,  // every word of it that is the address of an object: instances, and what extensions make
  kLeaf,   // none: float, None…
  kInteger,
  kText,
  kBytes,
  kByteArray,
  kTuple,
  kList,
  kDict,
  kSet,
  kDeque,
  kModule,
  kClass,
  kFunction,
  kCell,
  kGenerator,  // coroutines, too
  kFrame,
  kWeakReference,
  kTensor,
  kArray,
};

struct TypeInfo {
  std::uint64_t address = 0;
  std::string name;  // "int", "collections.deque", "train.Model"
  Shape shape = Shape::kPlain;
  std::uint64_t size_bytes = 0;      // of an object without its items
  std::uint64_t item_bytes = 0;      // of an item
  std::uint64_t built_in_bytes = 0;  // what belongs to the class that `shape` names; the rest is plain
  std::uint64_t weak_list = 0;       // where a pointer to weak references is, which hold nothing; 0: nowhere
  std::int64_t dict_offset = 0;      // negative: from the end
  std::uint64_t in_front_bytes = 0;  // before the object: the collector's links, pointers to attributes
  std::uint64_t flags = 0;
  cpython::DictKeys shared_keys;  // names of attributes that are kept as values; none before 3.11
  bool is_python_class = false;

  bool has_managed_dict() const { return (flags & 1U << 4U) != 0; }   // Py_TPFLAGS_MANAGED_DICT
  bool has_inline_values() const { return (flags & 1U << 2U) != 0; }  // Py_TPFLAGS_INLINE_VALUES
  bool is_heap_type() const { return (flags & 1U << 9U) != 0; }       // Py_TPFLAGS_HEAPTYPE
};

// Not thread-safe. Lifetime: all that it is given must outlive it.
class TypeTable {
 public:
  TypeTable(const Chunks& memory, const cpython::Location& location);

  // The index of a class; nothing: no class is there. Every answer is remembered.
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t Find(std::uint64_t address);
  // Of the class of what may be an object.
  std::uint32_t OfObject(std::uint64_t object);

  const TypeInfo& operator[](std::uint32_t index) const { return types_[index]; }
  std::size_t size() const { return types_.size(); }

 private:
  bool IsClass(std::uint64_t address, int depth) const;
  std::uint32_t Add(std::uint64_t address);
  void FindShape(TypeInfo& info) const;

  const Chunks* memory_;
  cpython::ObjectLayout layout_;
  int minor_;
  cpython::TypeReader reader_;
  std::deque<TypeInfo> types_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
  std::uint64_t last_address_ = 0;
  std::uint32_t last_index_ = kNone;
};

}  // namespace probing::heap
