// One line table of .debug_line (DWARF 2 to 5): which line of which file an instruction comes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unwind/dwarf_unit.h"

namespace probing::unwind {

class LineTable {
 public:
  struct Row {
    std::uint64_t file = 0;
    std::uint64_t line = 0;  // 0: none, or no row is there
  };

  // `folder` is where the compiler ran: relative names start there. Lifetime: `sections` must outlive it.
  static Result<LineTable> Load(const DwarfSections& sections, std::uint64_t offset,
                                const std::string& folder);

  // As gdb chooses: of several rows at one address the last at which a statement begins.
  Row Find(std::uint64_t address) const;

  // "" when there is no such file.
  std::string FileName(std::uint64_t file) const;

 private:
  Result<void> ReadNames(ByteReader& reader, const DwarfSections& sections);
  void ReadOldNames(ByteReader& reader);

  std::string folder_;
  int version_ = 0;
  bool is_64_bit_ = false;
  std::uint8_t instruction_bytes_ = 1;
  bool default_is_statement_ = true;
  std::int8_t line_base_ = 0;
  std::uint8_t line_range_ = 1;
  std::uint8_t opcode_base_ = 1;
  std::vector<std::uint8_t> operand_counts_;
  std::vector<std::string> folders_;
  struct File {
    std::string name;
    std::uint64_t folder;
  };
  std::vector<File> files_;
  std::vector<std::byte> program_;
};

}  // namespace probing::unwind
