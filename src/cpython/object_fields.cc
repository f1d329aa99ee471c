// The part of ObjectReader that writes objects whose parts have names.
#include <algorithm>

#include "cpython/literal.h"
#include "cpython/object_reader.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxFields = 32;
constexpr std::size_t kMaxAttributes = 64;
constexpr std::size_t kMaxNameCharacters = 200;
constexpr int kLastWithCommaInErrors = 6;  // ValueError('wrong',)

// None, or an empty container of any kind.
bool HoldsNothing(std::string_view text) {
  return text == "None" || text == "[]" || text == "{}" || text == "''" || text.ends_with("()");
}

// A name is printed as it is, so it must not be able to change the terminal.
std::string SafeName(const std::string& name) {
  const std::string quoted = QuoteText(name, kMaxNameCharacters);
  return quoted.size() == name.size() + 2 ? name : quoted;
}

}  // namespace

std::string ObjectReader::JoinFields(const Fields& fields, std::uint64_t total) {
  return Join(fields, total, [&](const AttributeReader::Attribute& field) {
    const std::string name = SafeName(field.name);
    Spend(name.size());
    return name + "=" + Element(field.value);
  });
}

ObjectReader::Text ObjectReader::Exception(RemoteAddress object, const Type& type) {
  // Its `__dict__`, then its arguments.
  ASSIGN_OR_RETURN(const auto arguments,
                   memory_->ReadValue((object + layout_.value + 8).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const Items items, ReadTuple(*memory_, layout_, arguments, kMaxFields));
  ASSIGN_OR_RETURN(std::string text, Sequence(items, "()"));
  if (items.total == 1 && minor_version_ <= kLastWithCommaInErrors) text.insert(text.size() - 1, ",");
  return type.display_name + text;
}

ObjectReader::Text ObjectReader::NamedTuple(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const Items names, ReadTuple(*memory_, layout_, type.fields, kMaxFields));
  ASSIGN_OR_RETURN(const Items values, ReadTuple(*memory_, layout_, object, kMaxFields));
  if (names.total != values.total) return Tuple(object);
  Fields fields;
  for (std::size_t i = 0; i < std::min(names.items.size(), values.items.size()); ++i) {
    ASSIGN_OR_RETURN(std::string name, ReadUnicode(*memory_, offsets_, names.items[i], kMaxNameCharacters));
    fields.push_back({std::move(name), values.items[i]});
  }
  return type.display_name + "(" + JoinFields(fields, values.total) + ")";
}

ObjectReader::Text ObjectReader::StructSequence(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const Items values, ReadTuple(*memory_, layout_, object, kMaxFields));
  Fields fields;
  for (const AttributeReader::Member& member : types_.attributes().ListMembers(type.address, kMaxFields)) {
    const std::uint64_t index = (member.offset - layout_.tuple_items) / 8;
    // Those beyond the tuple's end are attributes only.
    if (index < values.items.size()) fields.push_back({member.name, values.items[index]});
  }
  return type.name + "(" + JoinFields(fields, std::min(values.total, std::uint64_t{fields.size()})) + ")";
}

ObjectReader::Text ObjectReader::Enum(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const auto value, types_.attributes().FindAttribute(object, "_value_"));
  ASSIGN_OR_RETURN(const auto name, types_.attributes().FindAttribute(object, "_name_"));
  if (!value) return AddressText(type, object);
  std::string text = "<" + type.display_name;
  // None: several flags, up to 3.10.
  const auto name_text = name ? ReadUnicode(*memory_, offsets_, name, kMaxNameCharacters) : Text("");
  if (name_text.ok() && !name_text->empty()) text += "." + SafeName(*name_text);
  return text + ": " + Element(value) + ">";
}

ObjectReader::Text ObjectReader::Dataclass(RemoteAddress object, const Type& type) {
  ASSIGN_OR_RETURN(const DictItems declared, ReadDict(*memory_, layout_, type.fields, kMaxFields));
  ASSIGN_OR_RETURN(const auto attributes, types_.attributes().ListAttributes(object, 2 * kMaxFields));
  Fields fields;
  for (const auto& [key, field] : declared.items) {
    ASSIGN_OR_RETURN(const std::string name, ReadUnicode(*memory_, offsets_, key, kMaxNameCharacters));
    const auto found = std::find_if(attributes.attributes.begin(), attributes.attributes.end(),
                                    [&](const auto& each) { return each.name == name; });
    if (found == attributes.attributes.end()) continue;  // of the class only: ClassVar and InitVar
    const auto is_shown = types_.attributes().FindSlot(field, "repr");
    if (is_shown.ok() && *is_shown && IsFalse(*is_shown)) continue;
    fields.push_back(*found);
  }
  const std::uint64_t left_out =
      declared.total - std::min<std::uint64_t>(declared.total, declared.items.size());
  return type.display_name + "(" + JoinFields(fields, fields.size() + left_out) + ")";
}

// Any other object of a class that Python code made, with its attributes; those inside it without. Private
// ones that hold nothing are left out: a module of torch has twenty empty tables of hooks.
ObjectReader::Text ObjectReader::PlainObject(RemoteAddress object, const Type& type) {
  std::string text = AddressText(type, object);
  const auto list = types_.attributes().ListAttributes(object, kMaxAttributes);
  if (!list.ok()) return text;
  is_inside_object_ = true;
  std::string fields;
  bool is_whole = list->is_whole;
  for (const AttributeReader::Attribute& attribute : list->attributes) {
    is_whole = is_whole && bytes_left_ > 0;
    if (bytes_left_ == 0) break;
    const std::string value = Element(attribute.value);
    if (attribute.name.starts_with('_') && HoldsNothing(value)) continue;
    const std::string name = SafeName(attribute.name);
    Spend(name.size());
    fields += (fields.empty() ? "" : ", ") + name + "=" + value;
  }
  is_inside_object_ = false;
  if (!is_whole) fields += fields.empty() ? "…" : ", …";
  if (!fields.empty()) text.insert(text.size() - 1, " " + fields);
  return text;
}

}  // namespace probing::cpython
