#include "cpython/object_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cpython/arrays.h"
#include "cpython/block.h"
#include "cpython/containers.h"
#include "cpython/literal.h"
#include "cpython/scalars.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxElements = 8;
constexpr std::size_t kMaxTextBytes = 400;  // containers get no more elements beyond that
constexpr int kMaxDepth = 2;
constexpr std::size_t kMaxNameBytes = 200;
constexpr std::size_t kMaxTypes = 4096;
constexpr int kMaxBases = 8;
constexpr const char* kUnreadable = "<unreadable>";

constexpr std::uint64_t kHeapType = 1U << 9;       // Py_TPFLAGS_HEAPTYPE
constexpr std::uint64_t kTypeSubclass = 1U << 31;  // Py_TPFLAGS_TYPE_SUBCLASS

Error NoObject() { return {Code::kFailed, "not a Python object", ""}; }

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
  });
}

std::string At(const std::string& type, RemoteAddress object) {
  std::array<char, 16> hex{};
  const auto end = std::to_chars(hex.data(), hex.data() + hex.size(), object.address, 16).ptr;
  return "<" + type + " at 0x" + std::string(hex.data(), end) + ">";
}

// "1, 2, 3" and what is left out.
template <typename Items, typename Write>
std::string Join(const Items& items, Write write) {
  std::string text;
  std::size_t written = 0;
  for (const auto& item : items.items) {
    if (text.size() > kMaxTextBytes) break;
    if (written > 0) text += ", ";
    text += write(item);
    ++written;
  }
  if (written < items.total) text += written > 0 ? ", …" : "…";
  return text;
}

}  // namespace

ObjectReader::ObjectReader(const LimitedMemory& memory, const Location& location)
    : memory_(&memory), offsets_(location.offsets), layout_(ObjectLayout::Of(location)) {}

ObjectText ObjectReader::Describe(RemoteAddress object) {
  if (memory_->is_spent()) return {"…", ""};
  auto type = TypeOf(object);
  if (!type.ok()) return {kUnreadable, ""};
  auto text = Text(object, *type, 0);
  return {text.ok() ? std::move(*text) : kUnreadable, std::move(type->name)};
}

Result<RemoteAddress> ObjectReader::Unwrap(RemoteAddress object) {
  ASSIGN_OR_RETURN(const Type type, TypeOf(object));
  if (!type.is_built_in || type.name != "cell") return object;
  return memory_->ReadValue((object + layout_.value).As<RemoteAddress>());
}

Result<ObjectReader::Type> ObjectReader::TypeOf(RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto address, memory_->ReadValue((object + layout_.type).As<RemoteAddress>()));
  if (const auto known = types_.find(address.address); known != types_.end()) return known->second;
  if (types_.size() >= kMaxTypes) types_.clear();
  ASSIGN_OR_RETURN(const Type type, ReadType(address));
  types_.emplace(address.address, type);
  return type;
}

Result<ObjectReader::Type> ObjectReader::ReadType(RemoteAddress address) const {
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, address, layout_.type_dict + 8U));
  const auto flags = block.Get<std::uint64_t>(layout_.type_flags);
  Type type;
  type.is_built_in = (flags & kHeapType) == 0;
  type.makes_classes = (flags & kTypeSubclass) != 0;
  ASSIGN_OR_RETURN(type.name, memory_->ReadCString(block.GetPointer(layout_.type_name), kMaxNameBytes));
  if (!IsName(type.name)) return NoObject();
  ASSIGN_OR_RETURN(type.kind, KindOf(address));
  if (type.is_built_in || type.name.find('.') != std::string::npos) return type;
  const auto module = ModuleOf(block.GetPointer(layout_.type_dict));
  if (module.ok() && *module != "builtins") type.name = *module + "." + type.name;
  return type;
}

// What a class is made of: numpy's arrays and torch's tensors have values that Python knows nothing of.
Result<ObjectReader::Kind> ObjectReader::KindOf(RemoteAddress type) const {
  for (int i = 0; i < kMaxBases && type; ++i) {
    ASSIGN_OR_RETURN(const auto name, memory_->ReadValue((type + layout_.type_name).As<RemoteAddress>()));
    ASSIGN_OR_RETURN(const std::string text, memory_->ReadCString(name, kMaxNameBytes));
    if (text == "numpy.ndarray") return Kind::kArray;
    if (text == "torch._C.TensorBase" || text == "torch._C._TensorBase") return Kind::kTensor;
    ASSIGN_OR_RETURN(type, memory_->ReadValue((type + layout_.type_base).As<RemoteAddress>()));
  }
  return Kind::kOther;
}

Result<std::string> ObjectReader::ModuleOf(RemoteAddress type_dict) const {
  ASSIGN_OR_RETURN(const DictItems items, ReadDict(*memory_, layout_, type_dict, kMaxElements));
  for (const auto& [key, value] : items.items) {
    ASSIGN_OR_RETURN(const std::string name, ReadUnicode(*memory_, offsets_, key, kMaxNameBytes));
    if (name != "__module__") continue;
    ASSIGN_OR_RETURN(std::string module, ReadUnicode(*memory_, offsets_, value, kMaxNameBytes));
    if (!IsName(module)) break;
    return module;
  }
  return NoObject();
}

std::string ObjectReader::Element(RemoteAddress object, int depth) {
  if (memory_->is_spent()) return "…";
  const auto type = TypeOf(object);
  if (!type.ok()) return kUnreadable;
  auto text = Text(object, *type, depth);
  return text.ok() ? std::move(*text) : kUnreadable;
}

Result<std::string> ObjectReader::Text(RemoteAddress object, const Type& type, int depth) {
  if (type.makes_classes) {
    ASSIGN_OR_RETURN(const Type described, ReadType(object));
    return "<class '" + described.name + "'>";
  }
  if (type.kind != Kind::kOther) {
    const std::string name = type.name.substr(type.name.rfind('.') + 1);
    auto text = type.kind == Kind::kArray ? DescribeArray(*memory_, layout_, object, name)
                                          : DescribeTensor(*memory_, layout_, object, name);
    return text.ok() ? std::move(*text) : At(type.name, object);
  }
  return type.is_built_in ? BuiltIn(object, type.name, depth) : At(type.name, object);
}

Result<std::string> ObjectReader::BuiltIn(RemoteAddress object, const std::string& type, int depth) {
  const RemoteAddress value = object + layout_.value;
  if (type == "NoneType") return std::string("None");
  if (type == "ellipsis") return std::string("Ellipsis");
  if (type == "int") return DescribeInteger(*memory_, layout_, object);
  if (type == "bool") {
    ASSIGN_OR_RETURN(const std::string number, DescribeInteger(*memory_, layout_, object));
    return std::string(number == "0" ? "False" : "True");
  }
  if (type == "float") {
    ASSIGN_OR_RETURN(const double number, memory_->ReadValue(value.As<double>()));
    return FormatFloat(number);
  }
  if (type == "str") return DescribeText(*memory_, offsets_, object);
  if (type == "bytes") return DescribeBytes(*memory_, offsets_, object);
  if (type == "tuple") return Tuple(object, depth);
  if (type == "list") return List(object, depth);
  if (type == "dict") return Dict(object, depth);
  if (type == "set") return Set(object, depth);
  if (type == "frozenset") {
    ASSIGN_OR_RETURN(const std::string content, Set(object, depth));
    return content == "set()" ? "frozenset()" : "frozenset(" + content + ")";
  }
  if (type == "function") {
    ASSIGN_OR_RETURN(const std::string name, NameAt(object + layout_.function_name));
    return "<function " + name.substr(1, name.size() - 2) + ">";
  }
  if (type == "module") {
    ASSIGN_OR_RETURN(const std::string name, NameAt(value + 32));
    return "<module " + name + ">";
  }
  if (type == "builtin_function_or_method") return BuiltInFunction(object);
  return At(type, object);
}

Result<std::string> ObjectReader::Tuple(RemoteAddress object, int depth) {
  if (depth >= kMaxDepth) return std::string("(…)");
  ASSIGN_OR_RETURN(const Items items, ReadTuple(*memory_, layout_, object, kMaxElements));
  const std::string text = Join(items, [&](RemoteAddress item) { return Element(item, depth + 1); });
  return "(" + text + (items.total == 1 ? ",)" : ")");
}

Result<std::string> ObjectReader::List(RemoteAddress object, int depth) {
  if (depth >= kMaxDepth) return std::string("[…]");
  ASSIGN_OR_RETURN(const Items items, ReadList(*memory_, layout_, object, kMaxElements));
  return "[" + Join(items, [&](RemoteAddress item) { return Element(item, depth + 1); }) + "]";
}

Result<std::string> ObjectReader::Set(RemoteAddress object, int depth) {
  if (depth >= kMaxDepth) return std::string("{…}");
  ASSIGN_OR_RETURN(const Items items, ReadSet(*memory_, layout_, object, kMaxElements));
  if (items.total == 0) return std::string("set()");
  return "{" + Join(items, [&](RemoteAddress item) { return Element(item, depth + 1); }) + "}";
}

Result<std::string> ObjectReader::Dict(RemoteAddress object, int depth) {
  if (depth >= kMaxDepth) return std::string("{…}");
  ASSIGN_OR_RETURN(const DictItems items, ReadDict(*memory_, layout_, object, kMaxElements));
  return "{" +
         Join(items,
              [&](const auto& item) {
                return Element(item.first, depth + 1) + ": " + Element(item.second, depth + 1);
              }) +
         "}";
}

// `name` is the address of the pointer to a str. The answer is in quotes.
Result<std::string> ObjectReader::NameAt(RemoteAddress name) const {
  ASSIGN_OR_RETURN(const auto text, memory_->ReadValue(name.As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const auto utf8, ReadUnicode(*memory_, offsets_, text, kMaxNameBytes));
  return QuoteText(utf8, kMaxNameBytes);
}

Result<std::string> ObjectReader::BuiltInFunction(RemoteAddress object) const {
  // A PyMethodDef starts with the name.
  ASSIGN_OR_RETURN(const auto method, memory_->ReadValue((object + layout_.value).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const auto name, memory_->ReadValue(method.As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const std::string text, memory_->ReadCString(name, kMaxNameBytes));
  if (!IsName(text)) return NoObject();
  return "<built-in function " + text + ">";
}

}  // namespace probing::cpython
