// DebugInfo: from an address to functions, files and lines, inlined functions included (DWARF 2 to 5).
//
// Reads what an address needs and no more: the unit it is in, by .debug_aranges or, where compilers write
// none (clang), by the first entry of each unit. What was read is kept. Not thread-safe; everything is
// untrusted and bounded. Not read: split debug information (.dwo) and what dwz moved to a file of its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "unwind/dwarf_line.h"
#include "unwind/dwarf_unit.h"
#include "unwind/native_stack.h"

namespace probing::unwind {

class DebugInfo {
 public:
  // kNotFound: the file has none.
  static Result<std::unique_ptr<DebugInfo>> Load(const ElfFile& file);

  // The functions at `address` (without the bias), innermost first: those that were inlined, each at the line
  // it has got to, then the one that is really there. Empty when nothing is known.
  std::vector<SourcePlace> Find(std::uint64_t address);

 private:
  DebugInfo() = default;

  struct LoadedUnit {
    DwarfUnit unit;
    std::unique_ptr<const LineTable> lines;  // null: it has none
  };
  // Null when there is none, or it is damaged.
  LoadedUnit* FindUnit(std::uint64_t address);
  LoadedUnit* LoadUnit(std::uint64_t offset);
  const DwarfUnit* UnitOfEntry(std::uint64_t entry_offset);
  void ReadIndex();
  void ReadAddressIndex();
  std::vector<DwarfEntry> FindChain(const DwarfUnit& unit, std::uint64_t address);
  bool Contains(const DwarfUnit& unit, const DwarfEntry& entry, std::uint64_t address);
  std::string NameOf(const DwarfUnit& unit, const DwarfEntry& entry);

  DwarfSections sections_;
  bool has_index_ = false;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> units_by_address_;  // start: end, offset
  std::vector<std::uint64_t> unit_offsets_;                                            // ascending
  std::unordered_map<std::uint64_t, std::unique_ptr<LoadedUnit>> units_;  // by offset; null: damaged
  std::uint64_t steps_left_ = 0;
};

}  // namespace probing::unwind
