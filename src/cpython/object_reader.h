// Objects as short texts, read from outside: what repr() says of built-in types, cut where it is
// long, shape and type of arrays and tensors, and "<module.Class at 0x…>" for everything else. Nothing
// is called.
//
// Objects change and go while they are read, and all input is untrusted: what makes no sense is
// "<unreadable>". Every answer is bounded in depth, elements, characters and reads.
#pragma once

#include <string>
#include <unordered_map>

#include "cpython/limited_memory.h"
#include "cpython/object_layout.h"

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

  // REQUIRES: called from time to time. Classes may be freed and others take their places.
  void ForgetTypes() { types_.clear(); }

 private:
  enum class Kind : std::uint8_t { kOther, kArray, kTensor };

  // Of a class, what is needed of it here.
  struct Type {
    std::string name;          // with the module where it is not built in
    bool is_built_in = false;  // made in C: nobody else's class can have this name
    bool makes_classes = false;
    Kind kind = Kind::kOther;
  };

  Result<Type> TypeOf(process::RemoteAddress object);
  Result<Type> ReadType(process::RemoteAddress type) const;
  Result<Kind> KindOf(process::RemoteAddress type) const;
  Result<std::string> ModuleOf(process::RemoteAddress type_dict) const;

  Result<std::string> Text(process::RemoteAddress object, const Type& type, int depth);
  Result<std::string> BuiltIn(process::RemoteAddress object, const std::string& type, int depth);
  Result<std::string> Tuple(process::RemoteAddress object, int depth);
  Result<std::string> List(process::RemoteAddress object, int depth);
  Result<std::string> Set(process::RemoteAddress object, int depth);
  Result<std::string> Dict(process::RemoteAddress object, int depth);
  Result<std::string> NameAt(process::RemoteAddress name) const;
  Result<std::string> BuiltInFunction(process::RemoteAddress object) const;
  std::string Element(process::RemoteAddress object, int depth);

  const LimitedMemory* memory_;
  Offsets offsets_;
  ObjectLayout layout_;
  std::unordered_map<std::uint64_t, Type> types_;
};

}  // namespace probing::cpython
