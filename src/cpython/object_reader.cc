#include "cpython/object_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cpython/arrays.h"
#include "cpython/block.h"
#include "cpython/literal.h"
#include "cpython/scalars.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxElements = 8;
constexpr std::size_t kMaxCounted = 200;      // elements of a Counter that are put in order
constexpr std::size_t kMaxTextBytes = 2'000;  // of one value; containers get no more elements beyond that
constexpr const char* kUnreadable = "<unreadable>";
constexpr std::size_t kMaxNameBytes = 200;
constexpr std::uint32_t kWord = 8;
constexpr std::uint32_t kAfterDict = 32;  // PyDictObject: used, version, keys, values; then a defaultdict's
constexpr int kFirstWithDictInOrderedDict = 12;  // whose repr() shows a dict instead of a list of pairs

Error NoObject() { return {Code::kFailed, "not a Python object", ""}; }

bool IsContainer(const Type& type) {
  switch (type.kind) {
    case Kind::kOther:
      return type.is_python_class;
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kDict:
    case Kind::kOrderedDict:
    case Kind::kDefaultDict:
    case Kind::kCounter:
    case Kind::kDeque:
    case Kind::kSet:
    case Kind::kFrozenSet:
    case Kind::kRange:
    case Kind::kSlice:
    case Kind::kTorchSize:
    case Kind::kException:
    case Kind::kEnum:
    case Kind::kDataclass:
    case Kind::kNamedTuple:
    case Kind::kStructSequence:
      return true;
    default:
      return false;
  }
}

bool ShowsItsClass(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
    case Kind::kFloat:
    case Kind::kComplex:
    case Kind::kText:
    case Kind::kBytes:
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kDict:
      return false;
    default:
      return true;
  }
}

// "ndarray" of numpy.ndarray.
std::string PlainName(const Type& type) { return type.name.substr(type.name.rfind('.') + 1); }

// What repr() writes for an object inside itself.
std::string InsideItself(Kind kind) {
  switch (kind) {
    case Kind::kList:
      return "[...]";
    case Kind::kTuple:
      return "(...)";
    case Kind::kDict:
      return "{...}";
    default:
      return "...";
  }
}

std::string TooDeep(const Type& type) {
  switch (type.kind) {
    case Kind::kList:
      return "[…]";
    case Kind::kTuple:
      return "(…)";
    case Kind::kDict:
    case Kind::kSet:
      return "{…}";
    default:
      return type.display_name + "(…)";
  }
}

}  // namespace

std::string ObjectReader::AddressText(const Type& type, RemoteAddress object) {
  std::array<char, 16> hex{};
  const auto end = std::to_chars(hex.data(), hex.data() + hex.size(), object.address, 16).ptr;
  return "<" + type.name + " at 0x" + std::string(hex.data(), end) + ">";
}

ObjectReader::ObjectReader(const LimitedMemory& memory, const Location& location)
    : memory_(&memory),
      offsets_(location.offsets),
      layout_(ObjectLayout::Of(location)),
      minor_version_(location.version.minor),
      types_(memory, location) {}

ObjectText ObjectReader::Describe(RemoteAddress object) {
  bytes_left_ = kMaxTextBytes;
  open_.clear();
  is_inside_object_ = false;
  std::string text = Element(object);
  const auto type = types_.TypeOf(object);
  return {std::move(text), type.ok() ? type->name : ""};
}

Result<RemoteAddress> ObjectReader::Unwrap(RemoteAddress object) {
  ASSIGN_OR_RETURN(const Type type, types_.TypeOf(object));
  if (type.kind != Kind::kCell) return object;
  return memory_->ReadValue((object + layout_.value).As<RemoteAddress>());
}

std::string ObjectReader::Element(RemoteAddress object) {
  if (memory_->is_spent()) return "…";
  const auto type = types_.TypeOf(object);
  if (!type.ok()) return kUnreadable;
  auto text = Write(object, *type);
  return text.ok() ? std::move(*text) : kUnreadable;
}

ObjectReader::Text ObjectReader::Write(RemoteAddress object, const Type& type) {
  const bool is_container = IsContainer(type);
  if (is_container) {
    if (std::find(open_.begin(), open_.end(), object) != open_.end()) return InsideItself(type.kind);
    const bool is_plain = type.kind == Kind::kOther;
    const bool is_too_deep = open_.size() >= static_cast<std::size_t>(max_depth_);
    if (is_plain && (is_too_deep || is_inside_object_)) return AddressText(type, object);
    if (is_too_deep) return TooDeep(type);
    open_.push_back(object);
  }
  auto text = is_container ? WriteContainer(object, type) : WriteValue(object, type);
  if (is_container) open_.pop_back();
  if (!text.ok()) return text;
  Spend(is_container ? type.display_name.size() : text->size());
  // What its own __repr__ would say is not known; its class and its value are.
  if (type.has_own_repr && !ShowsItsClass(type.kind)) return type.display_name + "(" + *text + ")";
  return text;
}

ObjectReader::Text ObjectReader::WriteValue(RemoteAddress object, const Type& type) {
  const RemoteAddress value = object + layout_.value;
  const auto or_address = [&](Text text) { return text.ok() ? text : Text(AddressText(type, object)); };
  switch (type.kind) {
    case Kind::kNone:
      return std::string("None");
    case Kind::kEllipsis:
      return std::string("Ellipsis");
    case Kind::kInteger:
      return DescribeInteger(*memory_, layout_, object);
    case Kind::kBool:
      return std::string(IsFalse(object) ? "False" : "True");
    case Kind::kFloat: {
      ASSIGN_OR_RETURN(const double number, memory_->ReadValue(value.As<double>()));
      return FormatFloat(number);
    }
    case Kind::kComplex:
      return DescribeComplex(*memory_, layout_, object);
    case Kind::kText:
      return DescribeText(*memory_, offsets_, object);
    case Kind::kBytes:
      return DescribeBytes(*memory_, offsets_, object);
    case Kind::kByteArray:
      return DescribeByteArray(*memory_, layout_, object);
    case Kind::kFunction: {
      ASSIGN_OR_RETURN(const std::string name, NameAt(object + layout_.function_name));
      return "<function " + name.substr(1, name.size() - 2) + ">";
    }
    case Kind::kMethod: {
      ASSIGN_OR_RETURN(const auto function, memory_->ReadValue(value.As<RemoteAddress>()));
      ASSIGN_OR_RETURN(const Type called, types_.TypeOf(function));
      if (called.kind != Kind::kFunction) return AddressText(type, object);
      ASSIGN_OR_RETURN(const std::string name, NameAt(function + layout_.function_name));
      return "<bound method " + name.substr(1, name.size() - 2) + ">";
    }
    case Kind::kBuiltInFunction:
      return BuiltInFunction(object);
    case Kind::kModule: {
      ASSIGN_OR_RETURN(const std::string name, NameAt(value + 4 * kWord));
      return "<module " + name + ">";
    }
    case Kind::kClass: {
      ASSIGN_OR_RETURN(const Type described, types_.Read(object));
      return "<class '" + described.name + "'>";
    }
    case Kind::kArray:
      return or_address(DescribeArray(*memory_, layout_, object, PlainName(type)));
    case Kind::kTensor:
      return or_address(DescribeTensor(*memory_, layout_, object, PlainName(type)));
    case Kind::kNumpyScalar:
      return or_address(DescribeScalar(*memory_, layout_, object, type.name));
    case Kind::kTorchType:
      return or_address(DescribeTorchType(*memory_, layout_, object));
    case Kind::kTorchDevice:
      return or_address(DescribeTorchDevice(*memory_, layout_, object));
    default:
      return AddressText(type, object);
  }
}

ObjectReader::Text ObjectReader::WriteContainer(RemoteAddress object, const Type& type) {
  switch (type.kind) {
    case Kind::kTuple:
      return Tuple(object);
    case Kind::kList:
      return Sequence(ReadList(*memory_, layout_, object, kMaxElements), "[]");
    case Kind::kSet:
    case Kind::kFrozenSet:
      return Set(object, type);
    case Kind::kDict:
      return Dict(object);
    case Kind::kOrderedDict:
      return OrderedDict(object, type);
    case Kind::kDefaultDict:
      return DefaultDict(object, type);
    case Kind::kCounter:
      return Counter(object, type);
    case Kind::kDeque:
      return Deque(object, type);
    case Kind::kRange:
    case Kind::kSlice:
      return Range(object, type);
    case Kind::kTorchSize: {
      ASSIGN_OR_RETURN(const std::string sizes,
                       Sequence(ReadTuple(*memory_, layout_, object, kMaxElements), "[]"));
      return "torch.Size(" + sizes + ")";
    }
    case Kind::kException:
      return Exception(object, type);
    case Kind::kNamedTuple:
      return NamedTuple(object, type);
    case Kind::kStructSequence:
      return StructSequence(object, type);
    case Kind::kEnum:
      return Enum(object, type);
    case Kind::kDataclass:
      return Dataclass(object, type);
    default:
      return PlainObject(object, type);
  }
}

ObjectReader::Text ObjectReader::Sequence(const Result<Items>& items, std::string_view brackets) {
  if (!items.ok()) return items.error();
  const std::string text =
      Join(items->items, items->total, [&](RemoteAddress item) { return Element(item); });
  return brackets[0] + text + brackets[1];
}

ObjectReader::Text ObjectReader::Tuple(RemoteAddress object) {
  ASSIGN_OR_RETURN(const Items items, ReadTuple(*memory_, layout_, object, kMaxElements));
  ASSIGN_OR_RETURN(std::string text, Sequence(items, "()"));
  if (items.total == 1) text.insert(text.size() - 1, ",");
  return text;
}

ObjectReader::Text ObjectReader::Set(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const Items items, ReadSet(*memory_, layout_, object, kMaxElements));
  if (items.total == 0) return type.display_name + "()";
  ASSIGN_OR_RETURN(std::string text, Sequence(items, "{}"));
  if (type.kind == Kind::kSet && type.is_exact) return text;
  return type.display_name + "(" + text + ")";
}

std::string ObjectReader::Pairs(const DictItems& items) {
  const std::string text = Join(items.items, items.total, [&](const auto& item) {
    std::string key = Element(item.first);
    return key + ": " + Element(item.second);
  });
  return "{" + text + "}";
}

ObjectReader::Text ObjectReader::Dict(RemoteAddress object) {
  ASSIGN_OR_RETURN(const DictItems items, ReadDict(*memory_, layout_, object, kMaxElements));
  return Pairs(items);
}

ObjectReader::Text ObjectReader::OrderedDict(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const DictItems items, ReadOrderedDict(*memory_, layout_, object, kMaxElements));
  if (items.total == 0) return type.display_name + "()";
  if (minor_version_ >= kFirstWithDictInOrderedDict) return type.display_name + "(" + Pairs(items) + ")";
  const std::string text = Join(items.items, items.total, [&](const auto& item) {
    std::string key = Element(item.first);
    return "(" + key + ", " + Element(item.second) + ")";
  });
  return type.display_name + "([" + text + "])";
}

ObjectReader::Text ObjectReader::DefaultDict(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const auto factory,
                   memory_->ReadValue((object + layout_.value + kAfterDict).As<RemoteAddress>()));
  std::string made_by = factory ? Element(factory) : "None";
  ASSIGN_OR_RETURN(const std::string items, Dict(object));
  return type.display_name + "(" + made_by + ", " + items + ")";
}

// The greatest numbers first, as long as all of them are small ints.
ObjectReader::Text ObjectReader::Counter(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(DictItems items, ReadDict(*memory_, layout_, object, kMaxCounted));
  if (items.total == 0) return type.display_name + "()";
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    const auto counted = types_.TypeOf(items.items[i].second);
    if (!counted.ok() || counted->kind != Kind::kInteger) break;
    const auto text = DescribeInteger(*memory_, layout_, items.items[i].second);
    std::int64_t number = 0;
    if (!text.ok() || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc())
      break;
    order.emplace_back(number, i);
  }
  if (order.size() == items.total) {
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    DictItems sorted;
    for (const auto& [number, i] : order) sorted.items.push_back(items.items[i]);
    items.items = std::move(sorted.items);
  }
  if (items.items.size() > kMaxElements) items.items.resize(kMaxElements);
  return type.display_name + "(" + Pairs(items) + ")";
}

ObjectReader::Text ObjectReader::Deque(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const auto deque, ReadDeque(*memory_, layout_, object, kMaxElements));
  ASSIGN_OR_RETURN(const std::string items, Sequence(deque.items, "[]"));
  const std::string limit = deque.max_length < 0 ? "" : ", maxlen=" + std::to_string(deque.max_length);
  return type.display_name + "(" + items + limit + ")";
}

// Also a slice: both are three objects.
ObjectReader::Text ObjectReader::Range(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, object + layout_.value, 3 * kWord));
  std::string text = type.display_name + "(" + Element(block.GetPointer(0));
  text += ", " + Element(block.GetPointer(kWord));
  const std::string step = Element(block.GetPointer(2 * kWord));
  return text + (type.kind == Kind::kRange && step == "1" ? ")" : ", " + step + ")");
}

bool ObjectReader::IsFalse(RemoteAddress object) {
  const auto type = types_.TypeOf(object);
  if (!type.ok() || type->kind != Kind::kBool) return false;
  const auto number = DescribeInteger(*memory_, layout_, object);
  return number.ok() && *number == "0";
}

// `name` is the address of the pointer to a str. The answer is in quotes.
ObjectReader::Text ObjectReader::NameAt(RemoteAddress name) const {
  ASSIGN_OR_RETURN(const auto text, memory_->ReadValue(name.As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const auto utf8, ReadUnicode(*memory_, offsets_, text, kMaxNameBytes));
  return QuoteText(utf8, kMaxNameBytes);
}

ObjectReader::Text ObjectReader::BuiltInFunction(RemoteAddress object) const {
  // A PyMethodDef starts with the name.
  ASSIGN_OR_RETURN(const auto method, memory_->ReadValue((object + layout_.value).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const auto name, memory_->ReadValue(method.As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const std::string text, memory_->ReadCString(name, kMaxNameBytes));
  if (!IsName(text)) return NoObject();
  return "<built-in function " + text + ">";
}

}  // namespace probing::cpython
