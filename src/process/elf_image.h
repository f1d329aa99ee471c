// An ELF object as it is loaded in a target, read from the target's own memory.
//
// Reading memory instead of the file means that deleted files, other mount namespaces and
// prelinked libraries need no special case. Everything is bounds-checked: the image belongs
// to the target and may be garbage.
#pragma once

#include <elf.h>

#include <optional>
#include <string_view>
#include <vector>

#include "process/memory.h"

namespace probing::process {

class ElfImage {
 public:
  // Lifetime: `memory` must outlive the image.
  static Result<ElfImage> Load(const Memory& memory, RemoteAddress base);

  // Address of a defined dynamic symbol (function or data). Indirect functions are not
  // found: what they stand for is known only to the target's loader.
  Result<RemoteAddress> FindSymbol(std::string_view name) const;

  const Elf64_Ehdr& header() const { return header_; }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  // What has to be added to addresses in the file to get addresses in the target.
  std::uint64_t bias() const { return bias_; }

  // Where the dynamic symbols are in the target; null where there are none.
  struct Tables {
    RemotePtr<Elf64_Sym> symbols;
    RemoteAddress strings;
    RemoteAddress gnu_hash;
    RemoteAddress sysv_hash;
  };
  const Tables& tables() const { return tables_; }

 private:
  explicit ElfImage(const Memory& memory) : memory_(&memory) {}

  Result<void> ReadDynamic(RemoteAddress dynamic, std::size_t size_bytes);
  Result<std::optional<Elf64_Sym>> LookUpGnuHash(std::string_view name) const;
  Result<std::optional<Elf64_Sym>> LookUpSysvHash(std::string_view name) const;
  Result<std::optional<Elf64_Sym>> MatchSymbol(std::uint32_t index, std::string_view name) const;

  const Memory* memory_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::uint64_t bias_ = 0;
  Tables tables_;
};

}  // namespace probing::process
