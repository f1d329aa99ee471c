#include "cpython/object_types.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cpython/block.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxNameBytes = 200;
constexpr std::size_t kMaxTypes = 4096;
constexpr int kMaxBases = 16;

constexpr std::uint64_t kHeapType = 1U << 9;  // Py_TPFLAGS_HEAPTYPE
constexpr std::uint64_t kTupleSubclass = 1U << 26;
constexpr std::uint64_t kExceptionSubclass = 1U << 30;
constexpr std::uint64_t kTypeSubclass = 1U << 31;

struct KnownType {
  std::string_view name;
  Kind kind;
};
// Made in C: the name is the whole identity, because no class statement makes a type of this name.
constexpr std::array kKnownTypes{
    KnownType{"NoneType", Kind::kNone},
    KnownType{"ellipsis", Kind::kEllipsis},
    KnownType{"int", Kind::kInteger},
    KnownType{"bool", Kind::kBool},
    KnownType{"float", Kind::kFloat},
    KnownType{"complex", Kind::kComplex},
    KnownType{"str", Kind::kText},
    KnownType{"bytes", Kind::kBytes},
    KnownType{"bytearray", Kind::kByteArray},
    KnownType{"tuple", Kind::kTuple},
    KnownType{"list", Kind::kList},
    KnownType{"dict", Kind::kDict},
    KnownType{"collections.OrderedDict", Kind::kOrderedDict},
    KnownType{"collections.defaultdict", Kind::kDefaultDict},
    KnownType{"collections.deque", Kind::kDeque},
    KnownType{"set", Kind::kSet},
    KnownType{"frozenset", Kind::kFrozenSet},
    KnownType{"range", Kind::kRange},
    KnownType{"slice", Kind::kSlice},
    KnownType{"function", Kind::kFunction},
    KnownType{"method", Kind::kMethod},
    KnownType{"builtin_function_or_method", Kind::kBuiltInFunction},
    KnownType{"module", Kind::kModule},
    KnownType{"cell", Kind::kCell},
    KnownType{"numpy.ndarray", Kind::kArray},
    KnownType{"torch._C.TensorBase", Kind::kTensor},
    KnownType{"torch._C._TensorBase", Kind::kTensor},
    KnownType{"torch.Size", Kind::kTorchSize},
    KnownType{"torch.dtype", Kind::kTorchType},
    KnownType{"torch.device", Kind::kTorchDevice},
};

Error NoObject() { return {Code::kFailed, "not a Python object", ""}; }

Kind KnownKind(std::string_view name) {
  for (const KnownType& known : kKnownTypes) {
    if (known.name == name) return known.kind;
  }
  // str_ and bytes_ are made of Python's own.
  const bool may_be_scalar = name.starts_with("numpy.") && name != "numpy.str_" && name != "numpy.bytes_";
  return may_be_scalar ? Kind::kNumpyScalar : Kind::kOther;
}

std::string DisplayName(const std::string& name) {
  if (name.starts_with("numpy.")) return "np." + name.substr(6);
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
  });
}

struct TypeReader::Head {
  RemoteAddress address, metaclass, base, dict, members, repr;
  std::uint64_t flags = 0;
  std::string name;

  // A class statement makes names without the module; types that C code allocates have it in front.
  bool is_python_class() const { return (flags & kHeapType) != 0 && name.find('.') == std::string::npos; }
};

Result<Type> TypeReader::TypeOf(RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto address,
                   memory_->ReadValue((object + attributes_.layout().type).As<RemoteAddress>()));
  return Read(address);
}

Result<Type> TypeReader::Read(RemoteAddress address) {
  if (const auto known = types_.find(address.address); known != types_.end()) return known->second;
  if (types_.size() >= kMaxTypes) types_.clear();
  ASSIGN_OR_RETURN(const Type type, ReadNew(address));
  types_.emplace(address.address, type);
  return type;
}

Result<TypeReader::Head> TypeReader::ReadHead(RemoteAddress type) const {
  const ObjectLayout& layout = attributes_.layout();
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, type, layout.type_dict + 8U));
  Head head;
  head.address = type;
  head.metaclass = block.GetPointer(layout.type);
  head.flags = block.Get<std::uint64_t>(layout.type_flags);
  head.base = block.GetPointer(layout.type_base);
  head.dict = block.GetPointer(layout.type_dict);
  head.members = block.GetPointer(layout.type_members);
  head.repr = block.GetPointer(layout.type_repr);
  ASSIGN_OR_RETURN(head.name, memory_->ReadCString(block.GetPointer(layout.type_name), kMaxNameBytes));
  if (!IsName(head.name)) return NoObject();
  return head;
}

Result<Type> TypeReader::ReadNew(RemoteAddress address) const {
  ASSIGN_OR_RETURN(const Head head, ReadHead(address));
  Type type;
  type.address = address;
  type.name = head.name;
  type.display_name = DisplayName(head.name);
  type.is_python_class = head.is_python_class();
  Classify(head, type);
  if (!type.is_python_class) return type;
  const auto qualified =
      memory_->ReadValue((address + attributes_.layout().type_qualified_name).As<RemoteAddress>());
  const auto text = qualified.ok() ? ReadUnicode(*memory_, offsets_, *qualified, kMaxNameBytes)
                                   : Result<std::string>(NoObject());
  if (text.ok() && IsName(*text)) type.name = *text;
  if (type.kind == Kind::kDataclass) type.display_name = type.name;  // its repr() takes the qualified name
  const std::string module = TextInClass(head, "__module__");
  if (IsName(module) && module != "builtins") type.name = module + "." + type.name;
  return type;
}

// Up the first bases until one is known. Python's own rule: what is made of two built-in types has the
// first one's layout.
void TypeReader::Classify(const Head& own, Type& type) const {
  if ((own.flags & kTypeSubclass) != 0) {
    type.kind = Kind::kClass;
    return;
  }
  if (own.is_python_class() && IsEnum(own.metaclass)) {
    type.kind = Kind::kEnum;
    return;
  }
  Result<Head> head = own;
  for (int i = 0; i < kMaxBases && head.ok(); ++i) {
    if (!head->is_python_class()) {
      type.kind = KnownKind(head->name);
      if (type.kind == Kind::kOther && (own.flags & kTupleSubclass) != 0 && HasMembers(*head))
        type.kind = Kind::kStructSequence;
    } else if ((own.flags & kTupleSubclass) != 0) {
      type.fields = FindInClass(*head, "_fields");
      if (type.fields) type.kind = Kind::kNamedTuple;
    } else if ((own.flags & kExceptionSubclass) == 0) {
      type.fields = FindInClass(*head, "__dataclass_fields__");
      if (type.fields) type.kind = Kind::kDataclass;
      if (head->name == "Counter" && TextInClass(*head, "__module__") == "collections")
        type.kind = Kind::kCounter;
    }
    if (type.kind != Kind::kOther) {
      type.is_exact = i == 0;
      type.has_own_repr = head->repr != own.repr;
      return;
    }
    if (!head->base) break;
    head = ReadHead(head->base);
  }
  if ((own.flags & kExceptionSubclass) != 0) type.kind = Kind::kException;
}

bool TypeReader::IsEnum(RemoteAddress metaclass) const {
  Result<Head> head = ReadHead(metaclass);
  for (int i = 0; i < kMaxBases && head.ok() && head->is_python_class(); ++i) {
    if (head->name == "EnumMeta" || head->name == "EnumType") return true;
    head = ReadHead(head->base);
  }
  return false;
}

bool TypeReader::HasMembers(const Head& head) const {
  const auto first = memory_->ReadValue(head.members.As<RemoteAddress>());
  return first.ok() && *first;
}

RemoteAddress TypeReader::FindInClass(const Head& head, std::string_view name) const {
  if (!head.dict) return {};
  const auto found = attributes_.FindInDict(head.dict, name);
  return found.ok() ? *found : RemoteAddress{};
}

std::string TypeReader::TextInClass(const Head& head, std::string_view name) const {
  const RemoteAddress found = FindInClass(head, name);
  const auto text = found ? ReadUnicode(*memory_, offsets_, found, kMaxNameBytes) : Result<std::string>("");
  return text.ok() ? *text : "";
}

}  // namespace probing::cpython
