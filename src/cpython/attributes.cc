#include "cpython/attributes.h"

#include <algorithm>
#include <vector>

#include "cpython/block.h"
#include "cpython/containers.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::size_t kMaxEntries = 1 << 16;
constexpr std::uint64_t kInlineValues = 1U << 2;  // Py_TPFLAGS_INLINE_VALUES
constexpr std::uint64_t kManagedDict = 1U << 4;   // Py_TPFLAGS_MANAGED_DICT
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

Result<RemoteAddress> AttributeReader::FindAttribute(RemoteAddress object, std::string_view name) const {
  ASSIGN_OR_RETURN(const auto type, memory_->ReadValue((object + layout_.type).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, type, layout_.type_dict_offset + 8U));
  const auto flags = block.Get<std::uint64_t>(layout_.type_flags);
  RemoteAddress dict;
  RemoteAddress values;
  if (layout_.attributes == Attributes::kInDict || (flags & kManagedDict) == 0) {
    const auto offset = block.Get<std::int64_t>(layout_.type_dict_offset);
    if (offset <= 0 || offset > 4096) return RemoteAddress{};
    ASSIGN_OR_RETURN(dict,
                     memory_->ReadValue((object + static_cast<std::uint64_t>(offset)).As<RemoteAddress>()));
  } else {
    const RemoteAddress front{object.address - layout_.managed_dict_before};
    ASSIGN_OR_RETURN(dict, memory_->ReadValue(front.As<RemoteAddress>()));
    if (layout_.attributes == Attributes::kPointers) {
      ASSIGN_OR_RETURN(values, memory_->ReadValue(RemoteAddress{front.address - 8}.As<RemoteAddress>()));
    } else if (layout_.attributes == Attributes::kTagged && (dict.address & 1) != 0) {
      values = dict + 1;
      dict = {};
    } else if (layout_.attributes == Attributes::kInline && !dict && (flags & kInlineValues) != 0) {
      values = object + layout_.value;
      ASSIGN_OR_RETURN(const auto valid, memory_->ReadValue((values + kValuesAreValid).As<std::uint8_t>()));
      if (valid == 0) values = {};
    }
  }
  if (dict && !values) return FindInDict(dict, name);
  if (!values) return RemoteAddress{};
  ASSIGN_OR_RETURN(const auto keys, memory_->ReadValue((type + layout_.type_keys).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const DictItems items, ReadItems(*memory_, layout_, keys, values, kMaxEntries));
  return Find(*memory_, offsets_, items, name);
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
