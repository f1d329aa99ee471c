#include "unwind/debug_info.h"

#include <algorithm>
#include <unordered_set>

#include "unwind/demangle.h"

namespace probing::unwind {
namespace {

// A hostile file may make every entry point to a long list: work is bounded by steps, for one address.
constexpr std::uint64_t kMaxSteps = 50'000'000;
constexpr std::size_t kMaxRanges = 1 << 16;
constexpr std::size_t kMaxKeptUnits = 256;
constexpr std::size_t kMaxInlined = 256;
constexpr int kMaxOrigins = 8;

constexpr std::uint64_t kLexicalBlock = 0x0b;
constexpr std::uint64_t kInlinedSubroutine = 0x1d;
constexpr std::uint64_t kSubprogram = 0x2e;

bool HasCode(std::uint64_t tag) {
  return tag == kSubprogram || tag == kInlinedSubroutine || tag == kLexicalBlock;
}

// What has no code in it: types.
bool IsType(std::uint64_t tag) {
  return tag == 0x01 || tag == 0x02 || tag == 0x04 || tag == 0x13 || tag == 0x15 || tag == 0x17;
}

}  // namespace

Result<std::unique_ptr<DebugInfo>> DebugInfo::Load(const ElfFile& file) {
  auto info = std::unique_ptr<DebugInfo>(new DebugInfo);
  ASSIGN_OR_RETURN(info->sections_.info, file.OpenSection(".debug_info"));
  ASSIGN_OR_RETURN(info->sections_.abbrev, file.OpenSection(".debug_abbrev"));
  const auto open = [&](const char* name, Section& section) {
    auto found = file.OpenSection(name);
    if (found.ok()) section = std::move(*found);
  };
  open(".debug_line", info->sections_.line);
  open(".debug_str", info->sections_.str);
  open(".debug_line_str", info->sections_.line_str);
  open(".debug_str_offsets", info->sections_.str_offsets);
  open(".debug_addr", info->sections_.addr);
  open(".debug_ranges", info->sections_.ranges);
  open(".debug_rnglists", info->sections_.rnglists);
  open(".debug_aranges", info->sections_.aranges);
  return info;
}

std::vector<SourcePlace> DebugInfo::Find(std::uint64_t address) {
  steps_left_ = kMaxSteps;
  const LoadedUnit* found = FindUnit(address);
  if (found == nullptr) return {};
  std::vector<SourcePlace> places;
  LineTable::Row row;
  const LineTable* lines = found->lines.get();
  if (lines != nullptr) row = lines->Find(address);
  std::string file = lines != nullptr ? lines->FileName(row.file) : "";
  std::uint64_t line = row.line;
  std::vector<DwarfEntry> chain = FindChain(found->unit, address);
  if (chain.empty()) chain.emplace_back();  // a line without a function: assembly
  for (auto entry = chain.rbegin(); entry != chain.rend(); ++entry) {
    SourcePlace place;
    place.function = NameOf(found->unit, *entry);
    if (line != 0 && line <= 0xffffffffU) {
      place.file = file;
      place.line = static_cast<std::uint32_t>(line);
    }
    places.push_back(std::move(place));
    // The caller is where the call was written.
    file = entry->call_file && lines != nullptr ? lines->FileName(entry->call_file->number) : "";
    line = entry->call_line ? entry->call_line->number : 0;
  }
  return places;
}

// The function that the address is in and what was inlined there, outermost first.
std::vector<DwarfEntry> DebugInfo::FindChain(const DwarfUnit& unit, std::uint64_t address) {
  std::vector<DwarfEntry> chain;
  std::uint64_t at = unit.children_offset();
  int depth = 0;
  int skipped_from = -1;    // children of an entry at this depth are of no interest
  int function_depth = -1;  // of the function that was found
  while (steps_left_ > 0 && chain.size() < kMaxInlined) {
    --steps_left_;
    const auto entry = unit.Take(at);
    if (!entry) break;
    if (entry->tag == 0) {
      if (--depth < 0) break;
      if (depth <= skipped_from) skipped_from = -1;
      if (depth <= function_depth) break;
      continue;
    }
    const bool is_skipped = skipped_from >= 0;
    bool is_wanted = !is_skipped && !IsType(entry->tag);
    if (is_wanted && HasCode(entry->tag)) {
      is_wanted = Contains(unit, *entry, address);
      if (is_wanted && entry->tag != kLexicalBlock) {
        chain.push_back(*entry);
        if (function_depth < 0) function_depth = depth;
      }
    }
    if (!entry->has_children) {
      if (function_depth == depth) break;
      continue;
    }
    if (is_wanted) {
      ++depth;
    } else if (entry->sibling && entry->sibling->kind == DwarfValue::Kind::kEntry &&
               entry->sibling->number > at) {
      at = entry->sibling->number;
    } else {
      if (!is_skipped) skipped_from = depth;
      ++depth;
    }
  }
  return chain;
}

bool DebugInfo::Contains(const DwarfUnit& unit, const DwarfEntry& entry, std::uint64_t address) {
  const auto ranges = unit.Ranges(entry, kMaxRanges);
  steps_left_ -= std::min<std::uint64_t>(steps_left_, ranges.size());
  return std::any_of(ranges.begin(), ranges.end(), [&](const DwarfUnit::Range& range) {
    return range.start <= address && address < range.end;
  });
}

// Its own, or that of what it is an instance of. A mangled name says more than a plain one.
std::string DebugInfo::NameOf(const DwarfUnit& unit, const DwarfEntry& entry) {
  const DwarfUnit* at = &unit;
  DwarfEntry current = entry;
  std::string plain;
  for (int i = 0; i < kMaxOrigins; ++i) {
    if (std::string mangled = at->Text(current.linkage_name); !mangled.empty()) return Demangle(mangled);
    if (plain.empty()) plain = at->Text(current.name);
    if (!current.origin || current.origin->kind != DwarfValue::Kind::kEntry) break;
    std::uint64_t origin = current.origin->number;
    at = UnitOfEntry(origin);
    const auto next = at != nullptr ? at->Take(origin) : std::nullopt;
    if (!next) break;
    current = *next;
  }
  return Demangle(plain);
}

DebugInfo::LoadedUnit* DebugInfo::LoadUnit(std::uint64_t offset) {
  const auto [known, is_new] = units_.try_emplace(offset);
  if (!is_new) return known->second.get();
  auto unit = DwarfUnit::Load(sections_, offset, DwarfUnit::Extent::kWhole);
  if (!unit.ok()) return nullptr;
  std::unique_ptr<const LineTable> lines;
  if (unit->root().line_table) {
    auto loaded =
        LineTable::Load(sections_, unit->root().line_table->number, unit->Text(unit->root().folder));
    if (loaded.ok()) lines = std::make_unique<const LineTable>(std::move(*loaded));
  }
  known->second = std::make_unique<LoadedUnit>(LoadedUnit{std::move(*unit), std::move(lines)});
  return known->second.get();
}

const DwarfUnit* DebugInfo::UnitOfEntry(std::uint64_t entry_offset) {
  const auto next = std::upper_bound(unit_offsets_.begin(), unit_offsets_.end(), entry_offset);
  if (next == unit_offsets_.begin()) return nullptr;
  const LoadedUnit* found = LoadUnit(*std::prev(next));
  return found != nullptr ? &found->unit : nullptr;
}

DebugInfo::LoadedUnit* DebugInfo::FindUnit(std::uint64_t address) {
  if (!has_index_) ReadIndex();
  if (units_.size() > kMaxKeptUnits) units_.clear();
  const auto next = units_by_address_.upper_bound(address);
  if (next == units_by_address_.begin()) return nullptr;
  const auto [end, offset] = std::prev(next)->second;
  return address < end ? LoadUnit(offset) : nullptr;
}

void DebugInfo::ReadIndex() {
  has_index_ = true;
  ReadAddressIndex();
  std::unordered_set<std::uint64_t> listed;
  for (const auto& [start, unit] : units_by_address_) listed.insert(unit.second);
  for (std::uint64_t at = 0; at < sections_.info.size() && steps_left_ > 0; --steps_left_) {
    const auto unit = DwarfUnit::Load(sections_, at, DwarfUnit::Extent::kFirstEntry);
    if (!unit.ok()) break;
    unit_offsets_.push_back(at);
    at = unit->next_offset();
    if (listed.contains(unit->offset())) continue;
    const auto ranges = unit->Ranges(unit->root(), kMaxRanges);
    steps_left_ -= std::min<std::uint64_t>(steps_left_, ranges.size());
    for (const DwarfUnit::Range& range : ranges) {
      if (range.start < range.end)
        units_by_address_.emplace(range.start, std::pair(range.end, unit->offset()));
    }
  }
}

void DebugInfo::ReadAddressIndex() {
  const auto bytes = sections_.aranges.Read(0, sections_.aranges.size());
  if (!bytes.ok()) return;
  std::size_t at = 0;
  while (at < bytes->size()) {
    ByteReader reader(std::span<const std::byte>(*bytes).subspan(at));
    std::uint64_t length = reader.Take<std::uint32_t>();
    const bool is_64_bit = length == 0xffffffffU;
    if (is_64_bit) length = reader.Take<std::uint64_t>();
    const std::size_t start = reader.position();
    if (!reader.ok() || length == 0 || length > bytes->size() - at - start) return;
    const auto version = reader.Take<std::uint16_t>();
    const std::uint64_t unit = is_64_bit ? reader.Take<std::uint64_t>() : reader.Take<std::uint32_t>();
    const auto address_bytes = reader.Take<std::uint8_t>();
    const auto segment_bytes = reader.Take<std::uint8_t>();
    (void)reader.TakeBytes((16 - reader.position() % 16) % 16);
    const bool is_known = version == 2 && address_bytes == 8 && segment_bytes == 0;
    while (is_known && reader.ok() && reader.position() < start + length) {
      const auto from = reader.Take<std::uint64_t>();
      const auto size = reader.Take<std::uint64_t>();
      if (reader.ok() && size != 0) units_by_address_.emplace(from, std::pair(from + size, unit));
    }
    at += start + length;
  }
}

}  // namespace probing::unwind
