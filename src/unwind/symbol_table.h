// Function names of one object, from .symtab or, where that was stripped, .dynsym.
//
// Only addresses are kept (16 bytes per function, sorted once); a name is read when it is asked
// for. The largest library of PyTorch has 530,000 symbols with 76 MB of names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/elf_image.h"
#include "process/memory.h"
#include "unwind/elf_file.h"

namespace probing::unwind {

struct Symbol {
  std::string name;         // as in the file: mangled
  std::uint64_t start = 0;  // as in the file: without the bias
};

class SymbolTable {
 public:
  // Empty: finds nothing.
  SymbolTable() = default;

  // kNotFound: the file has none.
  static Result<SymbolTable> FromFile(const ElfFile& file);

  // .dynsym of a loaded image: the vDSO, or a file that is not there any more.
  static Result<SymbolTable> FromImage(std::shared_ptr<const process::Memory> memory,
                                       const process::ElfImage& image);

  // Asked for what this one does not know.
  void SetSecond(SymbolTable second) { second_ = std::make_unique<const SymbolTable>(std::move(second)); }

  // The function that `address` (without the bias) is in. Nothing when it is in none: a function
  // without a name is better than one with its neighbour's.
  std::optional<Symbol> Find(std::uint64_t address) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t start;
    std::uint32_t size;
    std::uint32_t name;  // offset in the string table
  };
  struct Source {
    process::RemoteAddress symbols;
    std::uint64_t count = 0;
    process::RemoteAddress strings;
    std::uint64_t strings_bytes = 0;
  };

  static Result<SymbolTable> Load(std::shared_ptr<const process::Memory> memory, const Source& source,
                                  const std::vector<Elf64_Phdr>& segments);
  std::string ReadName(const Entry& entry) const;  // "" for what is no name
  std::string ReadRaw(const Entry& entry) const;

  std::vector<Entry> entries_;                     // by start
  std::shared_ptr<const process::Memory> memory_;  // shared with whoever has the file open
  Source source_;
  std::unique_ptr<const SymbolTable> second_;
};

}  // namespace probing::unwind
