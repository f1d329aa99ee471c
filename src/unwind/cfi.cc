#include "unwind/cfi.h"

#include <limits>

#include "base/byte_reader.h"

namespace probing::unwind {
namespace {

constexpr std::size_t kMaxRememberedRows = 64;
constexpr std::uint8_t kNoPointer = 0xff;  // DW_EH_PE_omit

Error Malformed(const char* what) {
  return {Code::kFailed, std::string("malformed unwind table: ") + what, ""};
}

// DW_CFA_…; the first three have an operand in their low six bits.
enum : std::uint8_t {
  kAdvanceLoc = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
  kNop = 0x00,
  kSetLoc = 0x01,
  kAdvanceLoc1 = 0x02,
  kAdvanceLoc2 = 0x03,
  kAdvanceLoc4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefCfa = 0x0c,
  kDefCfaRegister = 0x0d,
  kDefCfaOffset = 0x0e,
  kDefCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSf = 0x11,
  kDefCfaSf = 0x12,
  kDefCfaOffsetSf = 0x13,
  kValOffset = 0x14,
  kValOffsetSf = 0x15,
  kValExpression = 0x16,
  kNegateRaStateWithPc = 0x2c,
  kNegateRaState = 0x2d,
  kGnuArgsSize = 0x2e,
};

class Machine {
 public:
  Machine(const Cie& cie, std::uint64_t start) : cie_(cie), location_(start) {
    row_.is_signal_frame = cie.is_signal_frame;
  }

  // Stops before the first instruction that is about something after `pc`.
  Result<void> Run(std::span<const std::byte> instructions, std::uint64_t pc) {
    ByteReader reader(instructions);
    while (!reader.AtEnd() && !done_) {
      RETURN_IF_ERROR(Step(reader, pc));
      if (!reader.ok()) return Malformed("an instruction is cut off");
    }
    return {};
  }

  void KeepInitialRow() { initial_ = row_; }
  Row TakeRow() { return std::move(row_); }

 private:
  Result<void> Step(ByteReader& reader, std::uint64_t pc) {
    const auto opcode = reader.Take<std::uint8_t>();
    const std::uint8_t low = opcode & 0x3fU;
    switch (opcode & 0xc0U) {
      case kAdvanceLoc:
        return Advance(low, pc);
      case kOffset:
        return Set(low, Rule::Kind::kAtOffset, Factored(static_cast<std::int64_t>(reader.TakeUleb())));
      case kRestore:
        return Restore(low);
      default:
        return StepExtended(opcode, reader, pc);
    }
  }

  Result<void> StepExtended(std::uint8_t opcode, ByteReader& reader, std::uint64_t pc) {
    switch (opcode) {
      case kNop:
        return {};
      case kSetLoc:
        return Malformed("DW_CFA_set_loc");  // no compiler writes it today
      case kAdvanceLoc1:
        return Advance(reader.Take<std::uint8_t>(), pc);
      case kAdvanceLoc2:
        return Advance(reader.Take<std::uint16_t>(), pc);
      case kAdvanceLoc4:
        return Advance(reader.Take<std::uint32_t>(), pc);
      case kOffsetExtended: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kAtOffset, Factored(static_cast<std::int64_t>(reader.TakeUleb())));
      }
      case kOffsetExtendedSf: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kAtOffset, Factored(reader.TakeSleb()));
      }
      case kValOffset: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kOffset, Factored(static_cast<std::int64_t>(reader.TakeUleb())));
      }
      case kValOffsetSf: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kOffset, Factored(reader.TakeSleb()));
      }
      case kRestoreExtended:
        return Restore(reader.TakeUleb());
      case kUndefined:
        return Set(reader.TakeUleb(), Rule::Kind::kUndefined, 0);
      case kSameValue:
        return Set(reader.TakeUleb(), Rule::Kind::kSame, 0);
      case kRegister: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kRegister, static_cast<std::int64_t>(reader.TakeUleb()));
      }
      case kRememberState:
        if (remembered_.size() >= kMaxRememberedRows) return Malformed("too many remembered rows");
        remembered_.push_back(row_);
        return {};
      case kRestoreState:
        if (remembered_.empty()) return Malformed("no remembered row");
        row_ = std::move(remembered_.back());
        remembered_.pop_back();
        return {};
      case kDefCfa: {
        const std::uint64_t number = reader.TakeUleb();
        return SetCfa(number, static_cast<std::int64_t>(reader.TakeUleb()));
      }
      case kDefCfaSf: {
        const std::uint64_t number = reader.TakeUleb();
        return SetCfa(number, Factored(reader.TakeSleb()));
      }
      case kDefCfaRegister:
        return SetCfa(reader.TakeUleb(), row_.cfa_offset);
      case kDefCfaOffset:
        return SetCfa(row_.cfa_register, static_cast<std::int64_t>(reader.TakeUleb()));
      case kDefCfaOffsetSf:
        return SetCfa(row_.cfa_register, Factored(reader.TakeSleb()));
      case kDefCfaExpression:
        row_.cfa_is_expression = true;
        row_.cfa_offset = KeepExpression(reader);
        return {};
      case kExpression: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kAtExpression, KeepExpression(reader));
      }
      case kValExpression: {
        const std::uint64_t number = reader.TakeUleb();
        return Set(number, Rule::Kind::kExpression, KeepExpression(reader));
      }
      case kNegateRaState:  // from here on the return address is signed, or not: StripCode() needs no telling
      case kNegateRaStateWithPc:
        return {};
      case kGnuArgsSize:
        reader.TakeUleb();
        return {};
      default:
        return Malformed("unknown instruction");
    }
  }

  Result<void> Advance(std::uint64_t delta, std::uint64_t pc) {
    location_ += delta * cie_.code_alignment;
    done_ = location_ > pc;
    return {};
  }

  std::int64_t Factored(std::int64_t value) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) *
                                     static_cast<std::uint64_t>(cie_.data_alignment));
  }

  // Vector registers have rules too; nothing that we follow depends on them.
  Result<void> Set(std::uint64_t number, Rule::Kind kind, std::int64_t value) {
    if (value != static_cast<std::int32_t>(value)) return Malformed("offset");
    if (number < kRegisterCount) row_.registers[number] = {kind, static_cast<std::int32_t>(value)};
    return {};
  }

  Result<void> Restore(std::uint64_t number) {
    if (number < kRegisterCount) row_.registers[number] = initial_.registers[number];
    return {};
  }

  Result<void> SetCfa(std::uint64_t number, std::int64_t offset) {
    if (number >= kRegisterCount || offset != static_cast<std::int32_t>(offset)) return Malformed("CFA");
    row_.cfa_is_expression = false;
    row_.cfa_register = static_cast<std::uint8_t>(number);
    row_.cfa_offset = static_cast<std::int32_t>(offset);
    return {};
  }

  // Appended, never removed: a remembered row has a part of them.
  std::int32_t KeepExpression(ByteReader& reader) {
    const std::uint64_t size = reader.TakeUleb();
    const auto bytes = reader.TakeBytes(size);
    const std::size_t at = row_.expressions.size();
    for (std::uint64_t rest = bytes.size();; rest >>= 7U) {
      row_.expressions.push_back(static_cast<std::byte>((rest & 0x7fU) | (rest > 0x7f ? 0x80U : 0U)));
      if (rest <= 0x7f) break;
    }
    row_.expressions.insert(row_.expressions.end(), bytes.begin(), bytes.end());
    return static_cast<std::int32_t>(at);
  }

  const Cie& cie_;
  std::uint64_t location_;
  bool done_ = false;
  Row row_;
  Row initial_;
  std::vector<Row> remembered_;
};

}  // namespace

Result<std::uint64_t> TakePointer(ByteReader& reader, std::uint8_t encoding, std::uint64_t address,
                                  std::uint64_t data_base) {
  enum : std::uint8_t {
    kAbsolute = 0,
    kUleb = 1,
    kU2 = 2,
    kU4 = 3,
    kU8 = 4,
    kSleb = 9,
    kS2 = 10,
    kS4 = 11,
    kS8 = 12
  };
  enum : std::uint8_t { kPcRelative = 0x10, kDataRelative = 0x30, kIndirect = 0x80 };
  const std::uint64_t here = address + reader.position();
  std::uint64_t value = 0;
  switch (encoding & 0x0fU) {
    case kAbsolute:
    case kU8:
    case kS8:
      value = reader.Take<std::uint64_t>();
      break;
    case kUleb:
      value = reader.TakeUleb();
      break;
    case kU2:
      value = reader.Take<std::uint16_t>();
      break;
    case kU4:
      value = reader.Take<std::uint32_t>();
      break;
    case kSleb:
      value = static_cast<std::uint64_t>(reader.TakeSleb());
      break;
    case kS2:
      value = static_cast<std::uint64_t>(std::int64_t{reader.Take<std::int16_t>()});
      break;
    case kS4:
      value = static_cast<std::uint64_t>(std::int64_t{reader.Take<std::int32_t>()});
      break;
    default:
      return Malformed("pointer encoding");
  }
  if (!reader.ok() || (encoding & kIndirect) != 0) return Malformed("pointer");
  switch (encoding & 0x70U) {
    case 0:
      return value;
    case kPcRelative:
      return value + here;
    case kDataRelative:
      return value + data_base;
    default:
      return Malformed("pointer base");
  }
}

Result<Cie> ParseCie(std::span<const std::byte> entry, std::uint64_t address) {
  ByteReader reader(entry);
  if (reader.Take<std::uint32_t>() != 0) return Malformed("no CIE");
  const auto version = reader.Take<std::uint8_t>();
  if (version != 1 && version != 3) return Malformed("version");
  const std::string_view augmentation = reader.TakeCString();
  Cie cie;
  cie.code_alignment = reader.TakeUleb();
  cie.data_alignment = reader.TakeSleb();
  const std::uint64_t return_register = version == 1 ? reader.Take<std::uint8_t>() : reader.TakeUleb();
  if (return_register != kReturnColumn) return Malformed("return address");
  for (const char c : augmentation) {
    if (c == 'z') {
      cie.has_augmentation_data = true;
      reader.TakeUleb();
    } else if (c == 'R') {
      cie.pointer_encoding = reader.Take<std::uint8_t>();
    } else if (c == 'S') {
      cie.is_signal_frame = true;
    } else if (c == 'L') {
      reader.Take<std::uint8_t>();
    } else if (c == 'P') {
      // Where the personality function is does not matter, only how long the pointer is.
      const auto encoding = reader.Take<std::uint8_t>();
      if (encoding != kNoPointer) RETURN_IF_ERROR(TakePointer(reader, encoding & 0x0fU, address, 0));
    } else if (c != 'B' && c != 'G') {  // AArch64: which key signs, whether the stack is tagged
      return Malformed("augmentation");
    }
  }
  if (!reader.ok()) return Malformed("CIE is cut off");
  const auto instructions = entry.subspan(reader.position());
  cie.instructions.assign(instructions.begin(), instructions.end());
  return cie;
}

Result<Fde> ParseFde(std::span<const std::byte> entry, std::uint64_t address, const Cie& cie) {
  ByteReader reader(entry);
  reader.Take<std::uint32_t>();  // where the CIE is
  Fde fde;
  ASSIGN_OR_RETURN(fde.start, TakePointer(reader, cie.pointer_encoding, address, 0));
  ASSIGN_OR_RETURN(fde.size, TakePointer(reader, cie.pointer_encoding & 0x0fU, address, 0));
  if (cie.has_augmentation_data) reader.TakeBytes(reader.TakeUleb());
  if (!reader.ok()) return Malformed("FDE is cut off");
  const auto instructions = entry.subspan(reader.position());
  fde.instructions.assign(instructions.begin(), instructions.end());
  return fde;
}

Result<Row> FindRow(const Cie& cie, const Fde& fde, std::uint64_t pc) {
  Machine machine(cie, fde.start);
  RETURN_IF_ERROR(machine.Run(cie.instructions, std::numeric_limits<std::uint64_t>::max()));
  machine.KeepInitialRow();
  RETURN_IF_ERROR(machine.Run(fde.instructions, pc));
  return machine.TakeRow();
}

}  // namespace probing::unwind
