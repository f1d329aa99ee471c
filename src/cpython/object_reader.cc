#include "cpython/object_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "cpython/block.h"
#include "cpython/containers.h"
#include "cpython/literal.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxCharacters = 80;
constexpr std::size_t kMaxElements = 8;
constexpr std::size_t kMaxTextBytes = 400;  // containers get no more elements beyond that
constexpr int kMaxDepth = 2;
constexpr std::uint64_t kMaxIntegerDigits = 8;  // 72 decimal ones
constexpr std::uint64_t kMaxIntegerSize = std::uint64_t{1} << 32;
constexpr std::size_t kMaxNameBytes = 200;
constexpr std::size_t kMaxTypes = 4096;
constexpr std::int32_t kMaxDimensions = 64;
constexpr const char* kUnreadable = "<unreadable>";

constexpr std::uint64_t kHeapType = 1U << 9;       // Py_TPFLAGS_HEAPTYPE
constexpr std::uint64_t kTypeSubclass = 1U << 31;  // Py_TPFLAGS_TYPE_SUBCLASS

// NPY_TYPES: part of numpy's ABI, the same in 1 and 2.
constexpr std::array<const char*, 24> kNumpyTypes = {
    "bool",       "int8",   "uint8",  "int16",   "uint16",  "int32",      "uint32",      "int64",
    "uint64",     "int64",  "uint64", "float32", "float64", "float128",   "complex64",   "complex128",
    "complex256", "object", "bytes",  "str",     "void",    "datetime64", "timedelta64", "float16"};

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
  if (type.is_built_in || type.name.find('.') != std::string::npos) return type;
  const auto module = ModuleOf(block.GetPointer(layout_.type_dict));
  if (module.ok() && *module != "builtins") type.name = *module + "." + type.name;
  return type;
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
  return type.is_built_in ? BuiltIn(object, type.name, depth) : At(type.name, object);
}

Result<std::string> ObjectReader::BuiltIn(RemoteAddress object, const std::string& type, int depth) {
  const RemoteAddress value = object + layout_.value;
  if (type == "NoneType") return std::string("None");
  if (type == "ellipsis") return std::string("Ellipsis");
  if (type == "int") return Integer(object);
  if (type == "bool") {
    ASSIGN_OR_RETURN(const std::string number, Integer(object));
    return std::string(number == "0" ? "False" : "True");
  }
  if (type == "float") {
    ASSIGN_OR_RETURN(const double number, memory_->ReadValue(value.As<double>()));
    return FormatFloat(number);
  }
  if (type == "str") return String(object);
  if (type == "bytes") return Bytes(object);
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
  if (type == "numpy.ndarray") return NumpyArray(object);
  return At(type, object);
}

Result<std::string> ObjectReader::Integer(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const auto head, memory_->ReadValue((object + layout_.value).As<std::int64_t>()));
  const auto bits = static_cast<std::uint64_t>(head);
  const bool negative = layout_.int_has_tag ? (bits & 3) == 2 : head < 0;
  const std::uint64_t size = layout_.int_has_tag ? bits >> 3 : negative ? -bits : bits;
  const RemoteAddress digits = object + layout_.value + 8;
  if (size > kMaxIntegerSize) return NoObject();
  if (size <= kMaxIntegerDigits) {
    std::vector<std::uint32_t> all(size);
    RETURN_IF_ERROR(memory_->Read(digits, std::as_writable_bytes(std::span(all))));
    return FormatInteger(all, negative);
  }
  ASSIGN_OR_RETURN(const auto highest, memory_->ReadValue((digits + (size - 1) * 4).As<std::uint32_t>()));
  const std::uint64_t width = (size - 1) * kIntegerDigitBits + static_cast<unsigned>(std::bit_width(highest));
  return "<int, " + std::to_string(width) + " bits>";
}

Result<std::string> ObjectReader::String(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const auto text, ReadUnicode(*memory_, offsets_, object, kMaxCharacters + 1));
  return QuoteText(text, kMaxCharacters);
}

Result<std::string> ObjectReader::Bytes(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const auto size, memory_->ReadValue((object + offsets_.bytes.size).As<std::int64_t>()));
  if (size < 0) return NoObject();
  std::vector<std::uint8_t> start(
      std::min(static_cast<std::uint64_t>(size), std::uint64_t{kMaxCharacters + 1}));
  RETURN_IF_ERROR(memory_->Read(object + offsets_.bytes.data, std::as_writable_bytes(std::span(start))));
  return QuoteBytes(start, kMaxCharacters);
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

Result<std::string> ObjectReader::NumpyArray(RemoteAddress object) const {
  // data, int nd, dimensions, strides, base, descr
  ASSIGN_OR_RETURN(const Block array, Block::Read(*memory_, object + layout_.value, 48));
  const auto count = array.Get<std::int32_t>(8);
  if (count < 0 || count > kMaxDimensions) return NoObject();
  std::vector<std::int64_t> shape(static_cast<std::size_t>(count));
  if (count > 0)
    RETURN_IF_ERROR(memory_->Read(array.GetPointer(16), std::as_writable_bytes(std::span(shape))));
  // typeobj, four chars, int type_num
  ASSIGN_OR_RETURN(const auto number,
                   memory_->ReadValue((array.GetPointer(40) + layout_.value + 12).As<std::int32_t>()));
  std::string text = "ndarray(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  text += shape.size() == 1 ? ",)" : ")";
  const bool known = number >= 0 && number < static_cast<std::int32_t>(kNumpyTypes.size());
  return text + " " + (known ? kNumpyTypes[static_cast<std::size_t>(number)] : "of its own type");
}

}  // namespace probing::cpython
