#include "unwind/step.h"

#include <array>
#include <utility>

#include "arch/machine.h"
#include "arch/signal_frame.h"
#include "base/byte_reader.h"
#include "unwind/expression.h"

namespace probing::unwind {
namespace {

using process::Memory;
using process::RemotePtr;

Result<std::uint64_t> ReadWord(const Memory& memory, std::uint64_t address) {
  return memory.ReadValue(RemotePtr<std::uint64_t>{address});
}

Error Unknown() { return {Code::kNotFound, "a register is needed that is not known", ""}; }

// Where unwind tables speak of a register that holds the return address, that is where the caller goes on.
Result<Registers> WithReturnAddress(Registers caller, bool is_outermost) {
  if constexpr (kReturnColumn == kReturnAddress) return caller;
  caller.Forget(kReturnAddress);
  if (is_outermost) return caller;
  if (!caller.Has(kReturnColumn)) return Unknown();
  caller.Set(kReturnAddress, arch::StripCode(caller.Get(kReturnColumn)));
  return caller;
}

Result<std::uint64_t> EvaluateAt(const Row& row, std::int32_t offset, const Registers& registers,
                                 const Memory& memory, std::optional<std::uint64_t> initial) {
  ByteReader reader(std::span(row.expressions).subspan(static_cast<std::size_t>(offset)));
  return Evaluate(reader.TakeBytes(reader.TakeUleb()), registers, memory, initial);
}

Result<std::uint64_t> FindCfa(const Row& row, const Registers& registers, const Memory& memory) {
  if (row.cfa_is_expression) return EvaluateAt(row, row.cfa_offset, registers, memory, std::nullopt);
  if (!registers.Has(row.cfa_register)) return Unknown();
  return registers.Get(row.cfa_register) + static_cast<std::uint64_t>(std::int64_t{row.cfa_offset});
}

}  // namespace

Result<Registers> StepByRules(const Row& row, const Registers& registers, const Memory& memory) {
  ASSIGN_OR_RETURN(const std::uint64_t cfa, FindCfa(row, registers, memory));
  Registers caller;
  caller.Set(kStackPointer, cfa);
  for (std::size_t i = 0; i < kRegisterCount; ++i) {
    const Rule& rule = row.registers[i];
    const std::uint64_t at = cfa + static_cast<std::uint64_t>(std::int64_t{rule.value});
    switch (rule.kind) {
      case Rule::Kind::kUnspecified:
        if (arch::dwarf::IsCalleeSaved(i) && registers.Has(i)) caller.Set(i, registers.Get(i));
        break;
      case Rule::Kind::kUndefined:
        caller.Forget(i);
        break;
      case Rule::Kind::kSame:
        if (registers.Has(i)) caller.Set(i, registers.Get(i));
        break;
      case Rule::Kind::kAtOffset: {
        ASSIGN_OR_RETURN(const std::uint64_t value, ReadWord(memory, at));
        caller.Set(i, value);
        break;
      }
      case Rule::Kind::kOffset:
        caller.Set(i, at);
        break;
      case Rule::Kind::kRegister: {
        const auto other = static_cast<std::size_t>(rule.value);
        if (registers.Has(other)) caller.Set(i, registers.Get(other));
        if (!registers.Has(other) && i == kReturnColumn) return Unknown();
        break;
      }
      case Rule::Kind::kAtExpression:
      case Rule::Kind::kExpression: {
        ASSIGN_OR_RETURN(std::uint64_t value, EvaluateAt(row, rule.value, registers, memory, cfa));
        if (rule.kind == Rule::Kind::kAtExpression) {
          ASSIGN_OR_RETURN(value, ReadWord(memory, value));
        }
        caller.Set(i, value);
        break;
      }
    }
  }
  return WithReturnAddress(std::move(caller), row.registers[kReturnColumn].kind == Rule::Kind::kUndefined);
}

Result<Registers> StepOverSignalFrame(const Registers& registers, const Memory& memory) {
  // Who came here by frame pointers knows only these.
  for (const auto [number, below] :
       {std::pair(kStackPointer, std::uint64_t{0}), std::pair(kFramePointer, arch::kSignalFrameBytes)}) {
    std::array<std::uint64_t, arch::kFrameWordsAtTrampoline> words{};
    if (!registers.Has(number)) continue;
    const std::uint64_t start = registers.Get(number) - below;
    if (!memory.Read({start}, std::as_writable_bytes(std::span(words))).ok()) continue;
    const auto interrupted = arch::InterruptedRegisters(words);
    if (!interrupted) continue;
    Registers caller;
    for (std::size_t i = 0; i < interrupted->size(); ++i) caller.Set(i, (*interrupted)[i]);
    return caller;
  }
  return Error{Code::kFailed, "no signal frame", ""};
}

Result<Registers> StepByFramePointer(const Registers& registers, const Memory& memory) {
  if (!registers.Has(kFramePointer) || !registers.Has(kStackPointer)) return Unknown();
  const std::uint64_t frame = registers.Get(kFramePointer);
  if (frame < registers.Get(kStackPointer) || frame % 8 != 0)
    return Error{Code::kFailed, "no frame pointer", ""};
  ASSIGN_OR_RETURN(const std::uint64_t outer, ReadWord(memory, frame));
  ASSIGN_OR_RETURN(const std::uint64_t return_address, ReadWord(memory, frame + 8));
  Registers caller;
  caller.Set(kFramePointer, outer);
  caller.Set(kStackPointer, frame + 16);
  caller.Set(kReturnAddress, arch::StripCode(return_address));
  return caller;
}

Result<Registers> StepFromCall(const Registers& registers, const Memory& memory) {
  if constexpr (arch::kCallsKeepStackPointer) return WithReturnAddress(registers, false);
  ASSIGN_OR_RETURN(const std::uint64_t return_address, ReadWord(memory, registers.Get(kStackPointer)));
  Registers caller = registers;
  caller.Set(kStackPointer, registers.Get(kStackPointer) + 8);
  caller.Set(kReturnAddress, return_address);
  return caller;
}

}  // namespace probing::unwind
