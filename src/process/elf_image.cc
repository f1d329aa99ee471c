#include "process/elf_image.h"

#include <algorithm>
#include <cstring>

namespace probing::process {
namespace {

constexpr std::size_t kMaxSegments = 128;
constexpr std::size_t kMaxDynamicEntries = 512;
constexpr std::uint32_t kMaxChain = 1 << 20;  // no real hash chain is longer; a hostile one might be endless

std::uint32_t GnuHash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const unsigned char c : name) hash = hash * 33 + c;
  return hash;
}

std::uint32_t SysvHash(std::string_view name) {
  std::uint32_t hash = 0;
  for (const unsigned char c : name) {
    hash = (hash << 4) + c;
    const std::uint32_t high = hash & 0xf0000000U;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

Error Malformed(std::string_view what) {
  return {Code::kFailed, "malformed ELF image in the target: " + std::string(what), ""};
}

}  // namespace

Result<ElfImage> ElfImage::Load(const Memory& memory, RemoteAddress base) {
  ElfImage image(memory);
  ASSIGN_OR_RETURN(image.header_, memory.ReadValue(base.As<Elf64_Ehdr>()));
  const Elf64_Ehdr& header = image.header_;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return Malformed("no ELF magic");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return Malformed("not 64-bit");
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSegments) {
    return Malformed("program headers");
  }
  image.segments_.resize(header.e_phnum);
  RETURN_IF_ERROR(memory.Read(base + header.e_phoff, std::as_writable_bytes(std::span(image.segments_))));

  const Elf64_Phdr* first_load = nullptr;
  const Elf64_Phdr* dynamic = nullptr;
  for (const Elf64_Phdr& segment : image.segments_) {
    if (segment.p_type == PT_LOAD && first_load == nullptr) first_load = &segment;
    if (segment.p_type == PT_DYNAMIC) dynamic = &segment;
  }
  if (first_load == nullptr) return Malformed("nothing to load");
  image.bias_ = base.address - (first_load->p_vaddr - first_load->p_offset);
  if (dynamic == nullptr) return image;  // a static binary: valid, without dynamic symbols
  RETURN_IF_ERROR(image.ReadDynamic({image.bias_ + dynamic->p_vaddr}, dynamic->p_memsz));
  return image;
}

Result<void> ElfImage::ReadDynamic(RemoteAddress dynamic, std::size_t size_bytes) {
  std::vector<Elf64_Dyn> entries(std::min(size_bytes / sizeof(Elf64_Dyn), kMaxDynamicEntries));
  RETURN_IF_ERROR(memory_->Read(dynamic, std::as_writable_bytes(std::span(entries))));
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    // glibc relocates these pointers in place, the vDSO's and musl's stay file addresses.
    const std::uint64_t value = entry.d_un.d_ptr;
    const std::uint64_t address = value < bias_ ? value + bias_ : value;
    if (entry.d_tag == DT_SYMTAB) tables_.symbols = {address};
    if (entry.d_tag == DT_STRTAB) tables_.strings = {address};
    if (entry.d_tag == DT_GNU_HASH) tables_.gnu_hash = {address};
    if (entry.d_tag == DT_HASH) tables_.sysv_hash = {address};
  }
  return {};
}

Result<RemoteAddress> ElfImage::FindSymbol(std::string_view name) const {
  std::optional<Elf64_Sym> symbol;
  if (tables_.symbols && tables_.strings && tables_.gnu_hash) {
    ASSIGN_OR_RETURN(symbol, LookUpGnuHash(name));
  } else if (tables_.symbols && tables_.strings && tables_.sysv_hash) {
    ASSIGN_OR_RETURN(symbol, LookUpSysvHash(name));
  }
  if (!symbol.has_value()) return Error{Code::kNotFound, "no symbol " + std::string(name), ""};
  if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC) {
    return Error{Code::kNotFound, std::string(name) + " is an indirect function", ""};
  }
  return RemoteAddress{bias_ + symbol->st_value};
}

Result<std::optional<Elf64_Sym>> ElfImage::LookUpGnuHash(std::string_view name) const {
  struct Header {
    std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  ASSIGN_OR_RETURN(const Header header, memory_->ReadValue(tables_.gnu_hash.As<Header>()));
  if (header.buckets == 0) return Malformed("empty hash table");
  const std::uint32_t hash = GnuHash(name);
  const RemoteAddress buckets = tables_.gnu_hash + (sizeof(Header) + 8ULL * header.bloom_words);
  const RemoteAddress chains = buckets + 4ULL * header.buckets;
  ASSIGN_OR_RETURN(std::uint32_t index,
                   memory_->ReadValue((buckets + 4ULL * (hash % header.buckets)).As<std::uint32_t>()));
  if (index < header.first_symbol) return std::optional<Elf64_Sym>();
  for (std::uint32_t steps = 0; steps < kMaxChain; ++steps, ++index) {
    ASSIGN_OR_RETURN(const std::uint32_t entry,
                     memory_->ReadValue((chains + 4ULL * (index - header.first_symbol)).As<std::uint32_t>()));
    if ((entry | 1U) == (hash | 1U)) {
      ASSIGN_OR_RETURN(auto match, MatchSymbol(index, name));
      if (match.has_value()) return match;
    }
    if ((entry & 1U) != 0) break;
  }
  return std::optional<Elf64_Sym>();
}

Result<std::optional<Elf64_Sym>> ElfImage::LookUpSysvHash(std::string_view name) const {
  struct Header {
    std::uint32_t buckets, chains;
  };
  ASSIGN_OR_RETURN(const Header header, memory_->ReadValue(tables_.sysv_hash.As<Header>()));
  if (header.buckets == 0) return Malformed("empty hash table");
  const RemoteAddress buckets = tables_.sysv_hash + sizeof(Header);
  const RemoteAddress chains = buckets + 4ULL * header.buckets;
  RemoteAddress next = buckets + 4ULL * (SysvHash(name) % header.buckets);
  for (std::uint32_t steps = 0; steps < kMaxChain; ++steps) {
    ASSIGN_OR_RETURN(const std::uint32_t index, memory_->ReadValue(next.As<std::uint32_t>()));
    if (index == STN_UNDEF) break;
    ASSIGN_OR_RETURN(auto match, MatchSymbol(index, name));
    if (match.has_value()) return match;
    next = chains + 4ULL * index;
  }
  return std::optional<Elf64_Sym>();
}

Result<std::optional<Elf64_Sym>> ElfImage::MatchSymbol(std::uint32_t index, std::string_view name) const {
  const RemoteAddress at = tables_.symbols.As<void>() + sizeof(Elf64_Sym) * std::uint64_t{index};
  ASSIGN_OR_RETURN(const Elf64_Sym symbol, memory_->ReadValue(at.As<Elf64_Sym>()));
  if (symbol.st_shndx == SHN_UNDEF) return std::optional<Elf64_Sym>();
  ASSIGN_OR_RETURN(const std::string text,
                   memory_->ReadCString(tables_.strings + symbol.st_name, name.size() + 1));
  return text == name ? std::optional(symbol) : std::nullopt;
}

}  // namespace probing::process
