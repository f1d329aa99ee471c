#include "cpython/attributes.h"

#include <algorithm>
#include <vector>

#include "cpython/block.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxEntries = 1 << 16;
constexpr std::size_t kMaxSlots = 64;
constexpr std::size_t kMaxNameBytes = 200;
constexpr int kMaxBases = 16;
constexpr std::int64_t kMaxDictOffset = 4096;
constexpr std::int64_t kMaxVariableItems = 1 << 20;
constexpr std::uint64_t kMaxObjectBytes = 1 << 12;  // without its items
constexpr std::size_t kMemberBytes = 40;
constexpr std::int32_t kObjectOrNone = 6;         // T_OBJECT
constexpr std::int32_t kObjectOrUnset = 16;       // T_OBJECT_EX: what `__slots__` makes
constexpr std::uint64_t kInlineValues = 1U << 2;  // Py_TPFLAGS_INLINE_VALUES
constexpr std::uint64_t kManagedDict = 1U << 4;   // Py_TPFLAGS_MANAGED_DICT
constexpr std::uint64_t kHeapType = 1U << 9;      // Py_TPFLAGS_HEAPTYPE
constexpr std::uint32_t kValuesAreValid = 3;      // a byte in front of inline values
constexpr unsigned kDigitBits = 30;

Error NoObject() { return {Code::kFailed, "not a Python object, or it changed", ""}; }

// The value of the entry whose key is this ASCII text. First all lengths, then only texts as long as `name`.
Result<RemoteAddress> Find(const process::Memory& memory, const Offsets& offsets, const DictItems& items,
                           std::string_view name) {
  std::vector<RemoteAddress> lengths;
  lengths.reserve(items.items.size());
  for (const auto& [key, value] : items.items) lengths.push_back(key + offsets.unicode.length);
  ASSIGN_OR_RETURN(const Blocks found_lengths, Blocks::Read(memory, lengths, sizeof(std::uint64_t)));
  std::vector<RemoteAddress> texts;
  std::vector<RemoteAddress> values;
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    if (found_lengths[i].Get<std::uint64_t>(0) != name.size()) continue;
    texts.push_back(items.items[i].first + offsets.unicode.ascii_data);
    values.push_back(items.items[i].second);
  }
  ASSIGN_OR_RETURN(const Blocks found_texts, Blocks::Read(memory, texts, name.size()));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const BlockView text = found_texts[i];
    bool same = true;
    for (std::uint32_t c = 0; same && c < name.size(); ++c) same = text.Get<char>(c) == name[c];
    if (same) return values[i];
  }
  return RemoteAddress{};
}

}  // namespace

Result<RemoteAddress> AttributeReader::FindInDict(RemoteAddress dict, std::string_view name) const {
  ASSIGN_OR_RETURN(const DictItems items, ReadDict(*memory_, layout_, dict, kMaxEntries));
  return Find(*memory_, offsets_, items, name);
}

Result<RemoteAddress> AttributeReader::FindModule(RemoteAddress interpreter, std::string_view name) const {
  if (offsets_.interpreter.modules == kAbsent) return RemoteAddress{};
  ASSIGN_OR_RETURN(const auto modules,
                   memory_->ReadValue((interpreter + offsets_.interpreter.modules).As<RemoteAddress>()));
  if (!modules) return RemoteAddress{};
  return FindInDict(modules, name);
}

Result<RemoteAddress> AttributeReader::FindVariable(RemoteAddress module, std::string_view name) const {
  ASSIGN_OR_RETURN(const auto dict, memory_->ReadValue((module + layout_.value).As<RemoteAddress>()));
  if (!dict) return RemoteAddress{};
  return FindInDict(dict, name);
}

Result<std::uint64_t> AttributeReader::SizeOf(RemoteAddress object, RemoteAddress type) const {
  ASSIGN_OR_RETURN(const Block sizes, Block::Read(*memory_, type + layout_.type_basic_size, 16));
  ASSIGN_OR_RETURN(auto count, memory_->ReadValue((object + layout_.value).As<std::int64_t>()));
  if (count < 0 && count > -kMaxVariableItems) count = -count;  // a negative int
  const auto basic = sizes.Get<std::uint64_t>(0);
  const auto item = sizes.Get<std::uint64_t>(8);
  if (count < 0 || count > kMaxVariableItems || basic > kMaxObjectBytes || item > kMaxObjectBytes)
    return NoObject();
  return (basic + static_cast<std::uint64_t>(count) * item + 7) / 8 * 8;
}

Result<AttributeReader::Place> AttributeReader::FindPlace(RemoteAddress object) const {
  Place place;
  ASSIGN_OR_RETURN(place.type, memory_->ReadValue((object + layout_.type).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, place.type, layout_.type_dict_offset + 8U));
  const auto flags = block.Get<std::uint64_t>(layout_.type_flags);
  if (layout_.attributes == Attributes::kInDict || (flags & kManagedDict) == 0) {
    auto offset = block.Get<std::int64_t>(layout_.type_dict_offset);
    if (offset == 0 || offset > kMaxDictOffset || offset < -kMaxDictOffset) return place;
    if (offset < 0) {  // from the end: ints and tuples have no fixed size
      ASSIGN_OR_RETURN(const std::uint64_t size, SizeOf(object, place.type));
      offset += static_cast<std::int64_t>(size);
      if (offset <= 0) return NoObject();
    }
    ASSIGN_OR_RETURN(place.dict,
                     memory_->ReadValue((object + static_cast<std::uint64_t>(offset)).As<RemoteAddress>()));
    return place;
  }
  const RemoteAddress front{object.address - layout_.managed_dict_before};
  ASSIGN_OR_RETURN(place.dict, memory_->ReadValue(front.As<RemoteAddress>()));
  if (layout_.attributes == Attributes::kPointers) {
    ASSIGN_OR_RETURN(place.values, memory_->ReadValue(RemoteAddress{front.address - 8}.As<RemoteAddress>()));
  } else if (layout_.attributes == Attributes::kTagged && (place.dict.address & 1) != 0) {
    place.values = place.dict + 1;
    place.dict = {};
  } else if (layout_.attributes == Attributes::kInline && !place.dict && (flags & kInlineValues) != 0) {
    // Behind the fields in C; since 3.14 subclasses of str and others have such values, too.
    const auto fields_bytes = block.Get<std::uint64_t>(layout_.type_basic_size);
    if (fields_bytes > kMaxObjectBytes) return NoObject();
    place.values = object + fields_bytes;
    ASSIGN_OR_RETURN(const auto valid,
                     memory_->ReadValue((place.values + kValuesAreValid).As<std::uint8_t>()));
    if (valid == 0) place.values = {};
  }
  return place;
}

Result<DictItems> AttributeReader::ReadPlace(const Place& place, std::size_t max_items) const {
  if (place.dict && !place.values) return ReadDict(*memory_, layout_, place.dict, max_items);
  if (!place.values) return DictItems{};
  ASSIGN_OR_RETURN(const auto keys, memory_->ReadValue((place.type + layout_.type_keys).As<RemoteAddress>()));
  return ReadItems(*memory_, layout_, keys, place.values, max_items);
}

Result<RemoteAddress> AttributeReader::FindAttribute(RemoteAddress object, std::string_view name) const {
  ASSIGN_OR_RETURN(const Place place, FindPlace(object));
  ASSIGN_OR_RETURN(const DictItems items, ReadPlace(place, kMaxEntries));
  return Find(*memory_, offsets_, items, name);
}

Result<RemoteAddress> AttributeReader::FindInClass(RemoteAddress type, std::string_view name) const {
  ASSIGN_OR_RETURN(const auto dict, memory_->ReadValue((type + layout_.type_dict).As<RemoteAddress>()));
  if (!dict) return RemoteAddress{};
  return FindInDict(dict, name);
}

Result<std::string> AttributeReader::TypeName(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const auto type, memory_->ReadValue((object + layout_.type).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const auto name, memory_->ReadValue((type + layout_.type_name).As<RemoteAddress>()));
  return memory_->ReadCString(name, kMaxNameBytes);
}

std::vector<AttributeReader::Member> AttributeReader::ListMembers(RemoteAddress type,
                                                                  std::size_t max_items) const {
  std::vector<Member> members;
  const auto array = memory_->ReadValue((type + layout_.type_members).As<RemoteAddress>());
  if (!array.ok() || !*array) return members;
  for (std::size_t i = 0; i < max_items; ++i) {
    // PyMemberDef: name, int type, offset, int flags, documentation; the last has no name.
    const auto entry = Block::Read(*memory_, *array + i * kMemberBytes, kMemberBytes);
    if (!entry.ok() || !entry->GetPointer(0)) break;
    auto name = memory_->ReadCString(entry->GetPointer(0), kMaxNameBytes);
    if (!name.ok()) break;
    const auto kind = entry->Get<std::int32_t>(8);
    members.push_back(
        {std::move(*name), entry->Get<std::uint64_t>(16), kind == kObjectOrUnset || kind == kObjectOrNone});
  }
  return members;
}

Result<std::vector<AttributeReader::Member>> AttributeReader::ListSlots(RemoteAddress object,
                                                                        std::size_t max_items) const {
  std::vector<Member> slots;
  ASSIGN_OR_RETURN(RemoteAddress type, memory_->ReadValue((object + layout_.type).As<RemoteAddress>()));
  for (int i = 0; i < kMaxBases && type && slots.size() < max_items; ++i) {
    ASSIGN_OR_RETURN(const auto flags, memory_->ReadValue((type + layout_.type_flags).As<std::uint64_t>()));
    if ((flags & kHeapType) == 0) break;  // C has fields of its own, not attributes that a program sets
    for (Member& member : ListMembers(type, max_items - slots.size())) {
      if (member.is_object && member.offset < kMaxObjectBytes) slots.push_back(std::move(member));
    }
    ASSIGN_OR_RETURN(type, memory_->ReadValue((type + layout_.type_base).As<RemoteAddress>()));
  }
  return slots;
}

Result<RemoteAddress> AttributeReader::FindSlot(RemoteAddress object, std::string_view name) const {
  ASSIGN_OR_RETURN(const auto slots, ListSlots(object, kMaxSlots));
  for (const Member& slot : slots) {
    if (slot.name == name) return memory_->ReadValue((object + slot.offset).As<RemoteAddress>());
  }
  return RemoteAddress{};
}

Result<AttributeReader::List> AttributeReader::ListAttributes(RemoteAddress object,
                                                              std::size_t max_items) const {
  List list;
  ASSIGN_OR_RETURN(const auto slots, ListSlots(object, max_items));
  for (const Member& slot : slots) {
    ASSIGN_OR_RETURN(const auto value, memory_->ReadValue((object + slot.offset).As<RemoteAddress>()));
    if (value) list.attributes.push_back({slot.name, value});
  }
  ASSIGN_OR_RETURN(const Place place, FindPlace(object));
  ASSIGN_OR_RETURN(const DictItems items, ReadPlace(place, max_items));
  for (const auto& [key, value] : items.items) {
    ASSIGN_OR_RETURN(std::string name, ReadUnicode(*memory_, offsets_, key, kMaxNameBytes));
    list.attributes.push_back({std::move(name), value});
  }
  list.is_whole = items.items.size() == items.total && list.attributes.size() <= max_items;
  if (list.attributes.size() > max_items) list.attributes.resize(max_items);
  return list;
}

Result<std::uint64_t> AttributeReader::ReadUnsigned(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const Block head, Block::Read(*memory_, object + layout_.value, 8));
  const auto size = layout_.int_has_tag ? head.Get<std::uint64_t>(0) >> 3 : head.Get<std::uint64_t>(0);
  const bool is_negative = layout_.int_has_tag && (head.Get<std::uint64_t>(0) & 3) == 2;
  if (is_negative || size > 3) return NoObject();
  ASSIGN_OR_RETURN(const Block digits, Block::Read(*memory_, object + layout_.value + 8, size * 4));
  std::uint64_t value = 0;
  for (auto i = static_cast<std::uint32_t>(size); i-- > 0;) {
    value = value << kDigitBits | digits.Get<std::uint32_t>(4 * i);
  }
  return value;
}

}  // namespace probing::cpython
