// One compilation unit of .debug_info (DWARF 2 to 5): its entries, attribute by attribute.
//
// Only the attributes that lead from an address to functions and lines are kept; all others are skipped.
// Everything comes from a file and is untrusted: past the end of a unit everything is zero, and IsDamaged().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_reader.h"
#include "unwind/elf_file.h"

namespace probing::unwind {

// The sections that debug information is spread over; those a file lacks are empty.
struct DwarfSections {
  Section info, abbrev, line, str, line_str, str_offsets, addr, ranges, rnglists, aranges;
};

struct DwarfValue {
  enum class Kind : std::uint8_t {
    kNumber,
    kAddress,
    kAddressIndex,  // in .debug_addr
    kText,          // in the unit itself
    kTextOffset,    // in .debug_str
    kLineText,      // in .debug_line_str
    kTextIndex,     // in .debug_str_offsets
    kEntry,         // an offset in .debug_info
    kRangeIndex,    // in the table in front of .debug_rnglists
    kNothing,       // skipped
  };
  Kind kind = Kind::kNothing;
  std::uint64_t number = 0;
  std::string_view text;
};

struct DwarfEntry {
  std::uint64_t tag = 0;  // 0: the end of a list of children
  bool has_children = false;
  std::optional<DwarfValue> name, linkage_name, low_pc, high_pc, ranges, origin, sibling, call_file,
      call_line, line_table, folder, text_base, address_base, ranges_base;
};

class DwarfUnit {
 public:
  struct Range {
    std::uint64_t start, end;
  };
  enum class Extent : std::uint8_t { kWhole, kFirstEntry };

  // The unit whose header is at `offset` of .debug_info. Lifetime: `sections` must outlive it.
  static Result<DwarfUnit> Load(const DwarfSections& sections, std::uint64_t offset, Extent extent);

  std::uint64_t offset() const { return offset_; }
  std::uint64_t next_offset() const { return next_offset_; }
  int version() const { return version_; }
  const DwarfEntry& root() const { return root_; }
  std::uint64_t children_offset() const { return children_offset_; }

  // Reads the entry at `at`, an offset in .debug_info, and moves on to what follows it: its first child, if
  // it has any. Nothing at the end of the unit, or where it makes no sense.
  std::optional<DwarfEntry> Take(std::uint64_t& at) const;

  std::string Text(const std::optional<DwarfValue>& value) const;
  std::optional<std::uint64_t> Address(const std::optional<DwarfValue>& value) const;
  // Where the entry's code is. Not more than `most`.
  std::vector<Range> Ranges(const DwarfEntry& entry, std::size_t most) const;

 private:
  struct Attribute {
    std::uint64_t name, form;
    std::int64_t implicit;
  };
  struct Abbreviation {
    std::uint64_t tag = 0;
    bool has_children = false;
    std::vector<Attribute> attributes;
  };

  explicit DwarfUnit(const DwarfSections& sections) : sections_(&sections) {}
  Result<void> ReadHeader(std::uint64_t offset);
  Result<void> ReadAbbreviations(std::uint64_t offset, std::size_t most);
  DwarfValue TakeValue(ByteReader& reader, std::uint64_t form, std::int64_t implicit) const;
  std::uint64_t TakeOffset(ByteReader& reader) const;
  std::vector<Range> RangesOfList(std::uint64_t offset, std::size_t most) const;
  std::vector<Range> RangesOfOldList(std::uint64_t offset, std::size_t most) const;
  std::optional<std::uint64_t> AddressAt(std::uint64_t index) const;

  const DwarfSections* sections_;
  std::uint64_t offset_ = 0;
  std::uint64_t next_offset_ = 0;
  std::uint64_t first_entry_ = 0;
  std::uint64_t children_offset_ = 0;
  std::uint64_t abbreviations_offset_ = 0;
  int version_ = 0;
  bool is_64_bit_ = false;
  std::vector<std::byte> bytes_;  // from the header on
  std::unordered_map<std::uint64_t, Abbreviation> abbreviations_;
  DwarfEntry root_;
  std::uint64_t text_base_ = 0;
  std::uint64_t address_base_ = 0;
  std::uint64_t ranges_base_ = 0;
  std::uint64_t low_pc_ = 0;
};

}  // namespace probing::unwind
