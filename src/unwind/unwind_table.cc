#include "unwind/unwind_table.h"

#include <algorithm>
#include <array>

#include "base/byte_reader.h"

namespace probing::unwind {
namespace {

constexpr std::uint64_t kMaxIndexBytes = 64 << 20;
constexpr std::uint32_t kMaxEntryBytes = 1 << 20;
constexpr std::size_t kMaxCies = 4096;
constexpr std::uint8_t kSortedTable = 0x3b;  // DW_EH_PE_datarel | DW_EH_PE_sdata4, what every linker writes

Error Malformed(const char* what) {
  return {Code::kFailed, std::string("malformed unwind index: ") + what, ""};
}
Error NotFound(const char* what) { return {Code::kNotFound, what, ""}; }

}  // namespace

Result<UnwindTable> UnwindTable::Load(const process::Memory& memory, const process::ElfImage& image) {
  const auto& segments = image.segments();
  const auto header = std::find_if(segments.begin(), segments.end(),
                                   [](const Elf64_Phdr& s) { return s.p_type == PT_GNU_EH_FRAME; });
  if (header == segments.end()) return NotFound("no unwind table");
  if (header->p_memsz > kMaxIndexBytes) return Malformed("size");
  UnwindTable table(memory, image.bias() + header->p_vaddr);
  std::vector<std::byte> bytes(header->p_memsz);
  RETURN_IF_ERROR(memory.Read({table.start_}, bytes));

  ByteReader reader(bytes);
  const auto version = reader.Take<std::uint8_t>();
  const auto frame_encoding = reader.Take<std::uint8_t>();
  const auto count_encoding = reader.Take<std::uint8_t>();
  const auto table_encoding = reader.Take<std::uint8_t>();
  if (version != 1 || table_encoding != kSortedTable) return NotFound("no sorted unwind table");
  RETURN_IF_ERROR(TakePointer(reader, frame_encoding, table.start_, table.start_));
  ASSIGN_OR_RETURN(const std::uint64_t count,
                   TakePointer(reader, count_encoding, table.start_, table.start_));
  if (count > (bytes.size() - reader.position()) / sizeof(Entry)) return Malformed("count");
  table.index_.resize(count);
  if (count > 0) std::memcpy(table.index_.data(), bytes.data() + reader.position(), count * sizeof(Entry));
  return table;
}

Result<Row> UnwindTable::Find(std::uint64_t pc) {
  const auto relative = static_cast<std::int64_t>(pc - start_);
  auto next = std::upper_bound(index_.begin(), index_.end(), relative,
                               [](std::int64_t at, const Entry& entry) { return at < entry.function; });
  if (next == index_.begin()) return NotFound("no function at this address");
  --next;
  const std::uint64_t address = start_ + static_cast<std::uint64_t>(std::int64_t{next->description});
  ASSIGN_OR_RETURN(const auto entry, ReadEntry(address));
  std::uint32_t cie_distance = 0;
  std::memcpy(&cie_distance, entry.data(), sizeof(cie_distance));
  if (cie_distance == 0) return Malformed("a CIE where a function should be");
  const std::uint64_t content = address + sizeof(std::uint32_t);
  ASSIGN_OR_RETURN(const Cie* cie, FindCie(content - cie_distance));
  ASSIGN_OR_RETURN(const Fde fde, ParseFde(entry, content, *cie));
  if (pc - fde.start >= fde.size) return NotFound("between two functions");
  return FindRow(*cie, fde, pc);
}

// Without its length, from the CIE id or CIE pointer on.
Result<std::vector<std::byte>> UnwindTable::ReadEntry(std::uint64_t address) const {
  ASSIGN_OR_RETURN(const std::uint32_t size, memory_->ReadValue(process::RemotePtr<std::uint32_t>{address}));
  if (size < sizeof(std::uint32_t) || size > kMaxEntryBytes) return Malformed("entry size");
  std::vector<std::byte> bytes(size);
  RETURN_IF_ERROR(memory_->Read({address + sizeof(size)}, bytes));
  return bytes;
}

Result<const Cie*> UnwindTable::FindCie(std::uint64_t address) {
  if (const auto known = cies_.find(address); known != cies_.end()) return &known->second;
  if (cies_.size() >= kMaxCies) return Malformed("too many CIEs");
  ASSIGN_OR_RETURN(const auto entry, ReadEntry(address));
  ASSIGN_OR_RETURN(Cie cie, ParseCie(entry, address + sizeof(std::uint32_t)));
  return &cies_.emplace(address, std::move(cie)).first->second;
}

}  // namespace probing::unwind
