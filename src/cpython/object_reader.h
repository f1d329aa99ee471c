// Objects as short texts, read from outside: what repr() says of built-in types and those of the standard
// library, NumPy and PyTorch that hold data, the fields of dataclasses, named tuples and enums, and
// "<module.Class at 0x… name=value>" for everything else. Nothing is called.
//
// Objects change and go while they are read, and all input is untrusted: what makes no sense is
// "<unreadable>". Every answer is bounded in depth, elements, characters and reads.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cpython/containers.h"
#include "cpython/limited_memory.h"
#include "cpython/object_types.h"
#include "cpython/snapshot.h"

namespace probing::cpython {

struct ObjectText {
  std::string text;
  std::string type;  // "int", "numpy.ndarray"; empty when unreadable
};

// Not thread-safe. Lifetime: `memory` must outlive it.
class ObjectReader {
 public:
  ObjectReader(const LimitedMemory& memory, const Location& location);

  ObjectText Describe(process::RemoteAddress object);

  // What a cell holds: null when nothing, or when `object` is no cell, the object itself.
  Result<process::RemoteAddress> Unwrap(process::RemoteAddress object);

  // REQUIRES: 0 to kMaxValueDepth.
  void set_depth(int depth) { max_depth_ = depth; }

  // REQUIRES: called from time to time. Classes may be freed and others take their places.
  void ForgetTypes() { types_.Forget(); }

 private:
  using Address = process::RemoteAddress;
  using Text = Result<std::string>;

  // An object on its own, or as part of another one.
  std::string Element(Address object);
  Text Write(Address object, const Type& type);
  Text WriteValue(Address object, const Type& type);  // what contains no other objects
  Text WriteContainer(Address object, const Type& type);
  // As much as there is room for, and "…" for the rest.
  template <typename Item, typename WriteItem>
  std::string Join(const std::vector<Item>& items, std::uint64_t total, WriteItem write) {
    std::string text;
    std::size_t written = 0;
    for (const Item& item : items) {
      if (bytes_left_ == 0) break;
      if (written > 0) text += ", ";
      Spend(std::string_view(", ").size());
      text += write(item);
      ++written;
    }
    if (written < total) text += written > 0 ? ", …" : "…";
    return text;
  }
  void Spend(std::size_t bytes) { bytes_left_ -= std::min(bytes_left_, bytes); }
  // "<module.Class at 0x…>"
  static std::string AddressText(const Type& type, Address object);

  Text Sequence(const Result<Items>& items, std::string_view brackets);
  Text Tuple(Address object);
  Text Set(Address object, const Type& type);
  std::string Pairs(const DictItems& items);
  Text Dict(Address object);
  Text OrderedDict(Address object, const Type& type);
  Text DefaultDict(Address object, const Type& type);
  Text Counter(Address object, const Type& type);
  Text Deque(Address object, const Type& type);
  Text Range(Address object, const Type& type);
  Text Exception(Address object, const Type& type);
  Text NamedTuple(Address object, const Type& type);
  Text StructSequence(Address object, const Type& type);
  Text Enum(Address object, const Type& type);
  Text Dataclass(Address object, const Type& type);
  Text PlainObject(Address object, const Type& type);

  using Fields = std::vector<AttributeReader::Attribute>;
  std::string JoinFields(const Fields& fields, std::uint64_t total);
  bool IsFalse(Address object);
  Text NameAt(Address name) const;
  Text BuiltInFunction(Address object) const;

  const LimitedMemory* memory_;
  Offsets offsets_;
  ObjectLayout layout_;
  int minor_version_;
  TypeReader types_;
  int max_depth_ = kDefaultValueDepth;

  // Of the object that Describe() is at.
  std::size_t bytes_left_ = 0;
  std::vector<Address> open_;      // what it is part of, outermost first
  bool is_inside_object_ = false;  // of a class without a known meaning: only one of them is opened
};

}  // namespace probing::cpython
