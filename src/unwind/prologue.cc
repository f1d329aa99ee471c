#include "unwind/prologue.h"

#include <array>

#include "arch/prologue.h"

namespace probing::unwind {

Result<Row> RowFromPrologue(std::span<const std::byte> code) {
  const auto prologue = arch::ReadPrologue(code);
  if (!prologue) return Error{Code::kFailed, "a prologue that is not understood", ""};
  Row row;
  row.cfa_register = static_cast<std::uint8_t>(prologue->caller_register);
  row.cfa_offset = prologue->caller_offset;
  row.is_guessed = true;
  for (std::size_t i = 0; i < kRegisterCount; ++i) {
    if (prologue->saved_at[i] != 0) row.registers[i] = {Rule::Kind::kAtOffset, prologue->saved_at[i]};
  }
  return row;
}

bool IsAfterCall(const process::Memory& memory, std::uint64_t address) {
  std::array<std::byte, arch::kLongestCallBytes> code{};
  return memory.Read({address - code.size()}, code).ok() && arch::EndsWithCall(code);
}

}  // namespace probing::unwind
