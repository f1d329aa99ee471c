// Unwind information: two entries of .eh_frame (lengths in front), what follows is an expression, and
// all of it is the memory that expressions and steps read.
#include "process/byte_memory.h"
#include "unwind/cfi.h"
#include "unwind/expression.h"
#include "unwind/prologue.h"
#include "unwind/step.h"

namespace {

using namespace probing::unwind;
using Bytes = std::span<const std::byte>;

Bytes TakePart(Bytes& bytes) {
  if (bytes.empty()) return {};
  const std::size_t size = std::min(std::to_integer<std::size_t>(bytes[0]), bytes.size() - 1);
  const Bytes part = bytes.subspan(1, size);
  bytes = bytes.subspan(1 + size);
  return part;
}

constexpr std::uint64_t kAt = 0x10000;

Registers MakeRegisters() {
  Registers registers;
  for (std::size_t i = 0; i < kRegisterCount; ++i) registers.Set(i, kAt + 8 * i);
  return registers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes rest = std::as_bytes(std::span(data, size));
  const probing::process::ByteMemory memory(kAt, rest);
  const Registers registers = MakeRegisters();
  const Bytes cie_bytes = TakePart(rest);
  const Bytes fde_bytes = TakePart(rest);
  (void)Evaluate(rest, registers, memory, kAt);
  if (const auto row = RowFromPrologue(rest); row.ok()) (void)StepByRules(*row, registers, memory);
  const auto cie = ParseCie(cie_bytes, 0x800);
  if (!cie.ok()) return 0;
  const auto fde = ParseFde(fde_bytes, 0x1000, *cie);
  if (!fde.ok()) return 0;
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{5}, fde->size / 2, fde->size - 1}) {
    const auto row = FindRow(*cie, *fde, fde->start + offset);
    if (row.ok()) (void)StepByRules(*row, registers, memory);
  }
  return 0;
}
