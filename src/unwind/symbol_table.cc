#include "unwind/symbol_table.h"

#include <algorithm>
#include <limits>

namespace probing::unwind {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::uint64_t kMaxSymbols = 8 << 20;
constexpr std::uint64_t kMaxNameBytes = 16 << 10;  // C++ names of some kilobytes exist
constexpr std::size_t kSymbolsPerRead = 64 << 10;
// Labels inside of functions, and functions that overlap: as far back as a containing one is looked for.
constexpr int kMaxStepsBack = 32;

Error Malformed(const char* what) {
  return {Code::kFailed, std::string("malformed symbol table: ") + what, ""};
}
Error NoTable() { return {Code::kNotFound, "no symbol table", ""}; }

bool IsCode(const std::vector<Elf64_Phdr>& segments, std::uint64_t address) {
  return std::any_of(segments.begin(), segments.end(), [&](const Elf64_Phdr& segment) {
    return segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
           address - segment.p_vaddr < segment.p_memsz;
  });
}

// Marks of assemblers for arm64, "$x" where code begins and "$d" where data does: no names of anything.
bool IsMark(const std::string& name) {
  return name.size() >= 2 && name[0] == '$' && (name[1] == 'x' || name[1] == 'd') &&
         (name.size() == 2 || name[2] == '.');
}

// Of several names for one function the one people write: short, without underscores in front.
bool IsBetterName(const std::string& a, const std::string& b) {
  const auto rank = [](const std::string& name) {
    return std::pair(name.find_first_not_of('_'), name.size());
  };
  return !a.empty() && (b.empty() || rank(a) < rank(b));
}

// The number of symbols is nowhere in a loaded image: it follows from the hash table.
Result<std::uint64_t> CountSymbols(const Memory& memory, RemoteAddress gnu_hash, RemoteAddress sysv_hash) {
  if (sysv_hash) {
    ASSIGN_OR_RETURN(const std::uint32_t chains, memory.ReadValue((sysv_hash + 4).As<std::uint32_t>()));
    return std::uint64_t{chains};
  }
  if (!gnu_hash) return NoTable();
  struct Header {
    std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  ASSIGN_OR_RETURN(const Header header, memory.ReadValue(gnu_hash.As<Header>()));
  if (header.buckets > kMaxSymbols) return Malformed("hash table");
  const RemoteAddress buckets = gnu_hash + (sizeof(Header) + 8ULL * header.bloom_words);
  std::vector<std::uint32_t> first(header.buckets);
  RETURN_IF_ERROR(memory.Read(buckets, std::as_writable_bytes(std::span(first))));
  std::uint64_t last = first.empty() ? 0 : *std::max_element(first.begin(), first.end());
  if (last < header.first_symbol) return std::uint64_t{header.first_symbol};
  const RemoteAddress chains = buckets + 4ULL * header.buckets;
  for (;; ++last) {
    if (last > kMaxSymbols) return Malformed("hash chain");
    ASSIGN_OR_RETURN(const std::uint32_t entry,
                     memory.ReadValue((chains + 4 * (last - header.first_symbol)).As<std::uint32_t>()));
    if ((entry & 1U) != 0) return last + 1;
  }
}

}  // namespace

Result<SymbolTable> SymbolTable::FromFile(const ElfFile& file) {
  const std::vector<Elf64_Shdr>& sections = file.sections();
  const Elf64_Shdr* found = nullptr;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_SYMTAB) found = &section;
    if (section.sh_type == SHT_DYNSYM && found == nullptr) found = &section;
  }
  if (found == nullptr) return NoTable();
  if (found->sh_link >= sections.size()) return Malformed("string table");
  const Elf64_Shdr& strings = sections[found->sh_link];
  const Source source{
      {found->sh_offset}, found->sh_size / sizeof(Elf64_Sym), {strings.sh_offset}, strings.sh_size};
  return Load(file.memory(), source, file.segments());
}

Result<SymbolTable> SymbolTable::FromImage(std::shared_ptr<const Memory> memory,
                                           const process::ElfImage& image) {
  const auto& tables = image.tables();
  if (!tables.symbols || !tables.strings) return NoTable();
  ASSIGN_OR_RETURN(const std::uint64_t count, CountSymbols(*memory, tables.gnu_hash, tables.sysv_hash));
  const Source source{tables.symbols.As<void>(), count, tables.strings,
                      std::numeric_limits<std::uint32_t>::max()};
  return Load(std::move(memory), source, image.segments());
}

Result<SymbolTable> SymbolTable::Load(std::shared_ptr<const Memory> memory, const Source& source,
                                      const std::vector<Elf64_Phdr>& segments) {
  if (source.count > kMaxSymbols) return Malformed("count");
  SymbolTable table;
  std::vector<Elf64_Sym> symbols;
  for (std::uint64_t done = 0; done < source.count; done += symbols.size()) {
    symbols.resize(std::min<std::uint64_t>(kSymbolsPerRead, source.count - done));
    RETURN_IF_ERROR(
        memory->Read(source.symbols + done * sizeof(Elf64_Sym), std::as_writable_bytes(std::span(symbols))));
    for (const Elf64_Sym& symbol : symbols) {
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
      if (!is_function || symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0) continue;
      if (symbol.st_name >= source.strings_bytes || !IsCode(segments, symbol.st_value)) continue;
      const auto size = std::min<std::uint64_t>(symbol.st_size, std::numeric_limits<std::uint32_t>::max());
      table.entries_.push_back({symbol.st_value, static_cast<std::uint32_t>(size), symbol.st_name});
    }
  }
  std::sort(table.entries_.begin(), table.entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.start, a.size) < std::pair(b.start, b.size);
  });
  table.entries_.shrink_to_fit();
  table.memory_ = std::move(memory);
  table.source_ = source;
  return table;
}

std::optional<Symbol> SymbolTable::Find(std::uint64_t address) const {
  auto next = std::upper_bound(entries_.begin(), entries_.end(), address,
                               [](std::uint64_t at, const Entry& entry) { return at < entry.start; });
  const Entry* found = nullptr;
  const Entry* label = nullptr;  // the nearest one without a size, as assembly has them
  bool is_nearest = true;
  for (int i = 0; i < kMaxStepsBack && next != entries_.begin() && found == nullptr; ++i) {
    --next;
    if (address - next->start < next->size) found = &*next;
    if (!is_nearest || found != nullptr) continue;
    is_nearest = next->size == 0 && IsMark(ReadRaw(*next));
    if (next->size == 0 && !is_nearest) label = &*next;
  }
  if (found == nullptr) found = label;
  if (found == nullptr) return second_ != nullptr ? second_->Find(address) : std::nullopt;
  Symbol best{"", found->start};
  for (const Entry* alias = found;; --alias) {
    if (alias->start != found->start) break;
    if (std::string name = ReadName(*alias); IsBetterName(name, best.name)) best.name = std::move(name);
    if (alias == entries_.data()) break;
  }
  if (best.name.empty()) return std::nullopt;
  return best;
}

std::string SymbolTable::ReadName(const Entry& entry) const {
  std::string name = ReadRaw(entry);
  return IsMark(name) ? "" : name;
}

std::string SymbolTable::ReadRaw(const Entry& entry) const {
  const auto name = memory_->ReadCString(source_.strings + entry.name, kMaxNameBytes);
  return name.ok() ? *name : "";
}

}  // namespace probing::unwind
