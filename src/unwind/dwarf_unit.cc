#include "unwind/dwarf_unit.h"

#include <algorithm>

namespace probing::unwind {
namespace {

constexpr std::uint64_t kMaxUnitBytes = 128 << 20;
constexpr std::uint64_t kHeaderBytes = 64;
constexpr std::uint64_t kFirstEntryBytes = 4096;
constexpr std::uint64_t kMaxAbbreviationBytes = 4 << 20;
constexpr std::size_t kRangeChunkBytes = 4096;
constexpr int kMaxIndirections = 4;
constexpr std::uint64_t kUnitType = 0x02;      // DW_UT_type
constexpr std::uint64_t kUnitSkeleton = 0x04;  // DW_UT_skeleton, DW_UT_split_compile
constexpr std::uint64_t kUnitSplit = 0x05;
constexpr std::uint64_t kUnitSplitType = 0x06;

Error Malformed(const char* what) {
  return {Code::kFailed, std::string("malformed debug information: ") + what, ""};
}

}  // namespace

Result<DwarfUnit> DwarfUnit::Load(const DwarfSections& sections, std::uint64_t offset, Extent extent) {
  DwarfUnit unit(sections);
  RETURN_IF_ERROR(unit.ReadHeader(offset));
  const std::uint64_t size = unit.next_offset_ - offset;
  if (size > kMaxUnitBytes) return Malformed("a unit is too large");
  const bool is_whole = extent == Extent::kWhole;
  ASSIGN_OR_RETURN(unit.bytes_,
                   sections.info.ReadUpTo(offset, is_whole ? size : std::min(size, kFirstEntryBytes)));
  RETURN_IF_ERROR(unit.ReadAbbreviations(unit.abbreviations_offset_,
                                         is_whole ? kMaxAbbreviationBytes : kFirstEntryBytes));
  std::uint64_t at = unit.first_entry_;
  const auto root = unit.Take(at);
  if (!root) return Malformed("a unit without an entry");
  unit.root_ = *root;
  unit.children_offset_ = root->has_children ? at : unit.next_offset_;
  const auto number = [](const std::optional<DwarfValue>& value, std::uint64_t otherwise) {
    return value ? value->number : otherwise;
  };
  // Without these attributes: behind the header of the section's only table.
  const std::uint64_t header = unit.is_64_bit_ ? 16 : 8;
  unit.text_base_ = number(root->text_base, header);
  unit.address_base_ = number(root->address_base, header);
  unit.ranges_base_ = number(root->ranges_base, header + 4);
  unit.low_pc_ = unit.Address(root->low_pc).value_or(0);
  return unit;
}

Result<void> DwarfUnit::ReadHeader(std::uint64_t offset) {
  ASSIGN_OR_RETURN(const auto bytes, sections_->info.ReadUpTo(offset, kHeaderBytes));
  ByteReader reader(bytes);
  offset_ = offset;
  std::uint64_t length = reader.Take<std::uint32_t>();
  is_64_bit_ = length == 0xffffffffU;
  if (is_64_bit_) length = reader.Take<std::uint64_t>();
  if (!reader.ok() || length == 0 || length > sections_->info.size() - offset - reader.position())
    return Malformed("length of a unit");
  next_offset_ = offset + reader.position() + length;
  version_ = reader.Take<std::uint16_t>();
  if (version_ < 2 || version_ > 5) return Malformed("unknown version");
  std::uint8_t address_bytes = 0;
  if (version_ == 5) {
    const auto type = reader.Take<std::uint8_t>();
    address_bytes = reader.Take<std::uint8_t>();
    abbreviations_offset_ = TakeOffset(reader);
    if (type == kUnitSkeleton || type == kUnitSplit) (void)reader.Take<std::uint64_t>();
    if (type == kUnitType || type == kUnitSplitType) {
      (void)reader.Take<std::uint64_t>();
      (void)TakeOffset(reader);
    }
  } else {
    abbreviations_offset_ = TakeOffset(reader);
    address_bytes = reader.Take<std::uint8_t>();
  }
  first_entry_ = offset + reader.position();
  if (!reader.ok() || address_bytes != 8) return Malformed("header of a unit");
  return {};
}

Result<void> DwarfUnit::ReadAbbreviations(std::uint64_t offset, std::size_t most) {
  ASSIGN_OR_RETURN(const auto bytes, sections_->abbrev.ReadUpTo(offset, most));
  ByteReader reader(bytes);
  while (reader.ok() && !reader.AtEnd()) {
    const std::uint64_t code = reader.TakeUleb();
    if (code == 0) return {};
    Abbreviation one;
    one.tag = reader.TakeUleb();
    one.has_children = reader.Take<std::uint8_t>() != 0;
    while (reader.ok()) {
      Attribute attribute{reader.TakeUleb(), reader.TakeUleb(), 0};
      if (attribute.form == 0x21) attribute.implicit = reader.TakeSleb();  // DW_FORM_implicit_const
      if (attribute.name == 0 && attribute.form == 0) break;
      one.attributes.push_back(attribute);
    }
    // What the end of the part that was read cuts off is not there: an entry that needs it is damaged.
    if (reader.ok()) abbreviations_.emplace(code, std::move(one));
  }
  return {};
}

std::uint64_t DwarfUnit::TakeOffset(ByteReader& reader) const {
  return is_64_bit_ ? reader.Take<std::uint64_t>() : reader.Take<std::uint32_t>();
}

std::optional<DwarfEntry> DwarfUnit::Take(std::uint64_t& at) const {
  if (at < offset_ || at - offset_ >= bytes_.size()) return std::nullopt;
  ByteReader reader(std::span<const std::byte>(bytes_).subspan(at - offset_));
  DwarfEntry entry;
  const std::uint64_t code = reader.TakeUleb();
  if (code != 0) {
    const auto found = abbreviations_.find(code);
    if (found == abbreviations_.end()) return std::nullopt;
    entry.tag = found->second.tag;
    entry.has_children = found->second.has_children;
    for (const Attribute& attribute : found->second.attributes) {
      const DwarfValue value = TakeValue(reader, attribute.form, attribute.implicit);
      switch (attribute.name) {
        case 0x01:
          entry.sibling = value;
          break;
        case 0x03:
          entry.name = value;
          break;
        case 0x10:
          entry.line_table = value;
          break;
        case 0x11:
          entry.low_pc = value;
          break;
        case 0x12:
          entry.high_pc = value;
          break;
        case 0x1b:
          entry.folder = value;
          break;
        case 0x31:
        case 0x47:
          entry.origin = value;
          break;  // abstract_origin, specification
        case 0x55:
          entry.ranges = value;
          break;
        case 0x58:
          entry.call_file = value;
          break;
        case 0x59:
          entry.call_line = value;
          break;
        case 0x6e:
        case 0x2007:
          entry.linkage_name = value;
          break;
        case 0x72:
          entry.text_base = value;
          break;
        case 0x73:
          entry.address_base = value;
          break;
        case 0x74:
          entry.ranges_base = value;
          break;
        default:
          break;
      }
    }
  }
  if (!reader.ok()) return std::nullopt;
  at += reader.position();
  return entry;
}

DwarfValue DwarfUnit::TakeValue(ByteReader& reader, std::uint64_t form, std::int64_t implicit) const {
  using Kind = DwarfValue::Kind;
  const auto skip = [&](std::uint64_t count) {
    (void)reader.TakeBytes(count);
    return DwarfValue{};
  };
  const auto take24 = [&] {
    const auto low = reader.Take<std::uint16_t>();
    return low + (std::uint64_t{reader.Take<std::uint8_t>()} << 16U);
  };
  const auto entry = [&](std::uint64_t number) { return DwarfValue{Kind::kEntry, offset_ + number, {}}; };
  for (int i = 0; form == 0x16 && i < kMaxIndirections; ++i) form = reader.TakeUleb();  // DW_FORM_indirect
  switch (form) {
    case 0x01:
      return {Kind::kAddress, reader.Take<std::uint64_t>(), {}};
    case 0x03:
      return skip(reader.Take<std::uint16_t>());  // block2
    case 0x04:
      return skip(reader.Take<std::uint32_t>());  // block4
    case 0x05:
      return {Kind::kNumber, reader.Take<std::uint16_t>(), {}};
    case 0x06:
      return {Kind::kNumber, reader.Take<std::uint32_t>(), {}};
    case 0x07:
      return {Kind::kNumber, reader.Take<std::uint64_t>(), {}};
    case 0x08:
      return {Kind::kText, 0, reader.TakeCString()};
    case 0x09:
    case 0x18:
      return skip(reader.TakeUleb());  // block, exprloc
    case 0x0a:
      return skip(reader.Take<std::uint8_t>());  // block1
    case 0x0b:
    case 0x0c:
      return {Kind::kNumber, reader.Take<std::uint8_t>(), {}};
    case 0x0d:
      return {Kind::kNumber, static_cast<std::uint64_t>(reader.TakeSleb()), {}};
    case 0x0e:
      return {Kind::kTextOffset, TakeOffset(reader), {}};
    case 0x0f:
      return {Kind::kNumber, reader.TakeUleb(), {}};
    case 0x10:  // ref_addr, an address in DWARF 2
      return {Kind::kEntry, version_ == 2 ? reader.Take<std::uint64_t>() : TakeOffset(reader), {}};
    case 0x11:
      return entry(reader.Take<std::uint8_t>());
    case 0x12:
      return entry(reader.Take<std::uint16_t>());
    case 0x13:
      return entry(reader.Take<std::uint32_t>());
    case 0x14:
      return entry(reader.Take<std::uint64_t>());
    case 0x15:
      return entry(reader.TakeUleb());
    case 0x17:
      return {Kind::kNumber, TakeOffset(reader), {}};  // sec_offset
    case 0x19:
      return {Kind::kNumber, 1, {}};  // flag_present
    case 0x1a:
      return {Kind::kTextIndex, reader.TakeUleb(), {}};
    case 0x1b:
      return {Kind::kAddressIndex, reader.TakeUleb(), {}};
    case 0x1c:
      return skip(4);  // ref_sup4
    case 0x1d:
    case 0x1f20:
    case 0x1f21:  // in a file that dwz made
      (void)TakeOffset(reader);
      return {};
    case 0x1e:
      return skip(16);  // data16
    case 0x1f:
      return {Kind::kLineText, TakeOffset(reader), {}};
    case 0x20:
      return skip(8);  // ref_sig8
    case 0x21:
      return {Kind::kNumber, static_cast<std::uint64_t>(implicit), {}};
    case 0x22:
      (void)reader.TakeUleb();
      return {};  // loclistx
    case 0x23:
      return {Kind::kRangeIndex, reader.TakeUleb(), {}};
    case 0x24:
      return skip(8);  // ref_sup8
    case 0x25:
      return {Kind::kTextIndex, reader.Take<std::uint8_t>(), {}};
    case 0x26:
      return {Kind::kTextIndex, reader.Take<std::uint16_t>(), {}};
    case 0x27:
      return {Kind::kTextIndex, take24(), {}};
    case 0x28:
      return {Kind::kTextIndex, reader.Take<std::uint32_t>(), {}};
    case 0x29:
      return {Kind::kAddressIndex, reader.Take<std::uint8_t>(), {}};
    case 0x2a:
      return {Kind::kAddressIndex, reader.Take<std::uint16_t>(), {}};
    case 0x2b:
      return {Kind::kAddressIndex, take24(), {}};
    case 0x2c:
      return {Kind::kAddressIndex, reader.Take<std::uint32_t>(), {}};
    default:
      (void)reader.TakeBytes(~std::uint64_t{0});  // nobody knows its length: fails
      return {};
  }
}

std::string DwarfUnit::Text(const std::optional<DwarfValue>& value) const {
  using Kind = DwarfValue::Kind;
  if (!value) return "";
  switch (value->kind) {
    case Kind::kText:
      return std::string(value->text);
    case Kind::kTextOffset:
      return sections_->str.ReadCString(value->number);
    case Kind::kLineText:
      return sections_->line_str.ReadCString(value->number);
    case Kind::kTextIndex: {
      const std::uint64_t size = is_64_bit_ ? 8 : 4;
      if (value->number > sections_->str_offsets.size()) return "";
      const auto bytes = sections_->str_offsets.Read(text_base_ + value->number * size, size);
      if (!bytes.ok()) return "";
      ByteReader reader(*bytes);
      return sections_->str.ReadCString(TakeOffset(reader));
    }
    default:
      return "";
  }
}

std::optional<std::uint64_t> DwarfUnit::AddressAt(std::uint64_t index) const {
  if (index > sections_->addr.size()) return std::nullopt;
  const auto bytes = sections_->addr.Read(address_base_ + index * 8, 8);
  if (!bytes.ok()) return std::nullopt;
  return ByteReader(*bytes).Take<std::uint64_t>();
}

std::optional<std::uint64_t> DwarfUnit::Address(const std::optional<DwarfValue>& value) const {
  if (!value) return std::nullopt;
  if (value->kind == DwarfValue::Kind::kAddress) return value->number;
  if (value->kind == DwarfValue::Kind::kAddressIndex) return AddressAt(value->number);
  return std::nullopt;
}

std::vector<DwarfUnit::Range> DwarfUnit::Ranges(const DwarfEntry& entry, std::size_t most) const {
  if (entry.ranges) {
    if (version_ < 5) return RangesOfOldList(entry.ranges->number, most);
    if (entry.ranges->kind != DwarfValue::Kind::kRangeIndex) return RangesOfList(entry.ranges->number, most);
    const std::uint64_t size = is_64_bit_ ? 8 : 4;
    if (entry.ranges->number > sections_->rnglists.size()) return {};
    const auto bytes = sections_->rnglists.Read(ranges_base_ + entry.ranges->number * size, size);
    if (!bytes.ok()) return {};
    ByteReader reader(*bytes);
    return RangesOfList(ranges_base_ + TakeOffset(reader), most);
  }
  const auto start = Address(entry.low_pc);
  if (!start || !entry.high_pc) return {};
  const auto end = Address(entry.high_pc);
  return {{*start, end ? *end : *start + entry.high_pc->number}};
}

std::vector<DwarfUnit::Range> DwarfUnit::RangesOfList(std::uint64_t offset, std::size_t most) const {
  std::vector<Range> ranges;
  std::uint64_t base = low_pc_;
  auto bytes = sections_->rnglists.ReadUpTo(offset, kRangeChunkBytes);
  if (bytes.ok() && bytes->size() == kRangeChunkBytes) {
    // A long one, perhaps: as long as it may be.
    bytes = sections_->rnglists.ReadUpTo(offset, 20 * most);
  }
  if (!bytes.ok()) return ranges;
  ByteReader reader(*bytes);
  while (reader.ok() && ranges.size() < most) {
    const auto kind = reader.Take<std::uint8_t>();
    std::optional<std::uint64_t> start;
    std::optional<std::uint64_t> end;
    switch (kind) {
      case 0:
        return ranges;
      case 1:
        base = AddressAt(reader.TakeUleb()).value_or(0);
        continue;
      case 2:
        start = AddressAt(reader.TakeUleb());
        end = AddressAt(reader.TakeUleb());
        break;
      case 3:
        start = AddressAt(reader.TakeUleb());
        end = start.value_or(0) + reader.TakeUleb();
        break;
      case 4:
        start = base + reader.TakeUleb();
        end = base + reader.TakeUleb();
        break;
      case 5:
        base = reader.Take<std::uint64_t>();
        continue;
      case 6:
        start = reader.Take<std::uint64_t>();
        end = reader.Take<std::uint64_t>();
        break;
      case 7:
        start = reader.Take<std::uint64_t>();
        end = *start + reader.TakeUleb();
        break;
      default:
        return ranges;
    }
    if (reader.ok() && start && end) ranges.push_back({*start, *end});
  }
  return ranges;
}

std::vector<DwarfUnit::Range> DwarfUnit::RangesOfOldList(std::uint64_t offset, std::size_t most) const {
  std::vector<Range> ranges;
  std::uint64_t base = low_pc_;
  auto bytes = sections_->ranges.ReadUpTo(offset, kRangeChunkBytes);
  if (bytes.ok() && bytes->size() == kRangeChunkBytes) bytes = sections_->ranges.ReadUpTo(offset, 16 * most);
  if (!bytes.ok()) return ranges;
  ByteReader reader(*bytes);
  while (ranges.size() < most) {
    const auto start = reader.Take<std::uint64_t>();
    const auto end = reader.Take<std::uint64_t>();
    if (!reader.ok() || (start == 0 && end == 0)) return ranges;
    if (start == ~std::uint64_t{0}) {
      base = end;
    } else {
      ranges.push_back({base + start, base + end});
    }
  }
  return ranges;
}

}  // namespace probing::unwind
