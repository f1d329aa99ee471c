// Classes of objects, read from outside: which built-in or well-known type an object is made of, so that its
// value can be found without calling anything. All input is untrusted.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "cpython/attributes.h"

namespace probing::cpython {

// What an object is made of. A class made of a built-in type is of that type's kind.
enum class Kind : std::uint8_t {
  kOther,  // a plain object, or a type of some extension
  kNone,
  kEllipsis,
  kInteger,
  kBool,
  kFloat,
  kComplex,
  kText,
  kBytes,
  kByteArray,
  kTuple,
  kList,
  kDict,
  kOrderedDict,
  kDefaultDict,
  kCounter,
  kDeque,
  kSet,
  kFrozenSet,
  kRange,
  kSlice,
  kFunction,
  kMethod,
  kBuiltInFunction,
  kModule,
  kClass,
  kCell,
  kException,
  kEnum,
  kDataclass,
  kNamedTuple,
  kStructSequence,  // time.struct_time, os.stat_result: a tuple with names, made in C
  kArray,           // numpy.ndarray
  kNumpyScalar,     // numpy.float32
  kTensor,          // torch.Tensor
  kTorchSize,
  kTorchType,    // torch.dtype
  kTorchDevice,  // torch.device
};

struct Type {
  process::RemoteAddress address;
  std::string name;          // with the module where it is not built in: "int", "collections.Counter"
  std::string display_name;  // as repr() writes it: "Counter", "np.float32"
  Kind kind = Kind::kOther;
  bool is_python_class = false;  // made by a class statement, so that it may have attributes
  bool is_exact = true;          // not a class made of the type that `kind` says
  bool has_own_repr = false;     // other than that of the type which `kind` says
  // kNamedTuple: the tuple `_fields`. kDataclass: the dict `__dataclass_fields__`.
  process::RemoteAddress fields;
};

// Printable and without spaces, as names of classes, functions and modules are.
bool IsName(std::string_view text);

// Remembers what it read. Not thread-safe. Lifetime: `memory` must outlive it.
class TypeReader {
 public:
  TypeReader(const process::Memory& memory, const Location& location)
      : memory_(&memory), offsets_(location.offsets), attributes_(memory, location) {}

  Result<Type> TypeOf(process::RemoteAddress object);
  // `type` is the class itself.
  Result<Type> Read(process::RemoteAddress type);

  // REQUIRES: called from time to time. Classes may be freed and others take their places.
  void Forget() { types_.clear(); }

  const AttributeReader& attributes() const { return attributes_; }

 private:
  struct Head;  // of a class, what is needed of it here

  Result<Head> ReadHead(process::RemoteAddress type) const;
  Result<Type> ReadNew(process::RemoteAddress address) const;
  // Finds kind, is_exact, has_own_repr and fields.
  void Classify(const Head& own, Type& type) const;
  bool IsEnum(process::RemoteAddress metaclass) const;
  bool HasMembers(const Head& head) const;
  process::RemoteAddress FindInClass(const Head& head, std::string_view name) const;
  std::string TextInClass(const Head& head, std::string_view name) const;

  const process::Memory* memory_;
  Offsets offsets_;
  AttributeReader attributes_;
  std::unordered_map<std::uint64_t, Type> types_;
};

}  // namespace probing::cpython
