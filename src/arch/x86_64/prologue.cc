#include "arch/prologue.h"

#include "base/byte_reader.h"

namespace probing::arch {
namespace {

// From the number in an instruction to DWARF's.
constexpr std::array<std::uint8_t, 16> kDwarfNumbers = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr unsigned kRspInCode = 4;
constexpr unsigned kRbpInCode = 5;
constexpr int kMaxStackBytes = 1 << 24;

// The bytes that say which register and which memory an instruction is about.
struct Operands {
  unsigned reg = 0;
  unsigned rm = 0;  // only when it is a register
  bool is_register = false;
  bool is_stack = false;  // [rsp + displacement]
  std::int32_t displacement = 0;
};

Operands TakeOperands(ByteReader& reader, unsigned rex) {
  const unsigned modrm = reader.Take<std::uint8_t>();
  const unsigned mod = modrm >> 6U;
  Operands operands;
  operands.reg = (modrm >> 3U & 7U) | (rex & 4U) << 1U;
  operands.is_register = mod == 3;
  operands.rm = (modrm & 7U) | (rex & 1U) << 3U;
  if (operands.is_register) return operands;
  bool has_base = true;
  if ((modrm & 7U) == kRspInCode) {
    const unsigned sib = reader.Take<std::uint8_t>();
    operands.is_stack = sib == 0x24 && (rex & 3U) == 0;
    has_base = (sib & 7U) != kRbpInCode || mod != 0;
  } else if ((modrm & 7U) == kRbpInCode && mod == 0) {
    has_base = false;  // relative to rip
  }
  if (mod == 1) operands.displacement = reader.Take<std::int8_t>();
  if (mod == 2 || !has_base) operands.displacement = reader.Take<std::int32_t>();
  return operands;
}

class Reading {
 public:
  Reading() { found_.saved_at[dwarf::kReturnAddress] = -8; }

  // kContinue: understood. kEnd: the prologue is over.
  enum class Outcome : std::uint8_t { kContinue, kEnd, kLost };

  Outcome Step(ByteReader& reader) {
    auto opcode = reader.Take<std::uint8_t>();
    if (opcode == 0xf3) return TakeEndbr(reader);
    unsigned rex = 0;
    if ((opcode & 0xf0U) == 0x40) {
      rex = opcode & 0x0fU;
      opcode = reader.Take<std::uint8_t>();
    }
    if ((opcode & 0xf8U) == 0x50) return Push((opcode & 7U) | (rex & 1U) << 3U);
    switch (opcode) {
      case 0x81:
      case 0x83:
        return Calculate(reader, rex, opcode);
      case 0x89:
        return Store(reader, rex);
      case 0x8b:
      case 0x8d: {
        const Operands operands = TakeOperands(reader, rex);
        if (operands.reg == kRbpInCode && operands.is_register && operands.rm == kRspInCode)
          return UseFramePointer();
        return operands.reg == kRspInCode ? Outcome::kLost : Outcome::kContinue;
      }
      case 0x31:
      case 0x33:
      case 0x39:
      case 0x3b:
      case 0x85:
        TakeOperands(reader, rex);
        return Outcome::kContinue;
      default:
        return Outcome::kEnd;
    }
  }

  Prologue Found() const {
    Prologue found = found_;
    if (!uses_frame_pointer_) found.caller_offset = depth_;
    return found;
  }

 private:
  static Outcome TakeEndbr(ByteReader& reader) {
    const auto rest = reader.TakeBytes(3);
    const bool is_endbr = rest.size() == 3 && rest[0] == std::byte{0x0f} && rest[1] == std::byte{0x1e};
    return is_endbr ? Outcome::kContinue : Outcome::kEnd;
  }

  Outcome Push(unsigned reg) {
    depth_ += 8;
    Save(reg, -depth_);
    return Outcome::kContinue;
  }

  // Only the first time: what is stored later is another value.
  void Save(unsigned reg, std::int32_t offset) {
    const std::uint8_t number = kDwarfNumbers[reg];
    if (dwarf::IsCalleeSaved(number) && found_.saved_at[number] == 0) found_.saved_at[number] = offset;
  }

  // add, sub and and, the operations that move rsp.
  Outcome Calculate(ByteReader& reader, unsigned rex, std::uint8_t opcode) {
    const Operands operands = TakeOperands(reader, rex);
    const std::int32_t value = opcode == 0x83 ? reader.Take<std::int8_t>() : reader.Take<std::int32_t>();
    if (!operands.is_register || operands.rm != kRspInCode) return Outcome::kContinue;
    const unsigned operation = operands.reg & 7U;
    if (operation == 4 && uses_frame_pointer_) return Outcome::kContinue;
    if ((operation != 0 && operation != 5) || value > kMaxStackBytes || value < -kMaxStackBytes)
      return Outcome::kLost;
    depth_ += operation == 5 ? value : -value;
    return depth_ >= 8 && depth_ < kMaxStackBytes ? Outcome::kContinue : Outcome::kLost;
  }

  Outcome Store(ByteReader& reader, unsigned rex) {
    const Operands operands = TakeOperands(reader, rex);
    if (operands.is_register && operands.rm == kRbpInCode && operands.reg == kRspInCode)
      return UseFramePointer();
    if (operands.is_register && operands.rm == kRspInCode) return Outcome::kLost;
    if (operands.is_stack && (rex & 8U) != 0) Save(operands.reg, operands.displacement - depth_);
    return Outcome::kContinue;
  }

  Outcome UseFramePointer() {
    uses_frame_pointer_ = true;
    found_.caller_register = dwarf::kFramePointer;
    found_.caller_offset = depth_;
    return Outcome::kContinue;
  }

  Prologue found_;
  std::int32_t depth_ = 8;  // from rsp up to the caller's: the return address is there already
  bool uses_frame_pointer_ = false;
};

}  // namespace

std::optional<Prologue> ReadPrologue(std::span<const std::byte> code) {
  Reading reading;
  ByteReader reader(code);
  while (!reader.AtEnd()) {
    const Reading before = reading;
    const auto outcome = reading.Step(reader);
    if (!reader.ok()) return before.Found();  // the instruction in question is not executed yet
    if (outcome == Reading::Outcome::kLost) return std::nullopt;
    if (outcome == Reading::Outcome::kEnd) break;
  }
  return reading.Found();
}

bool EndsWithCall(std::span<const std::byte, kLongestCallBytes> bytes) {
  const auto at = [&](std::size_t index) { return std::to_integer<unsigned>(bytes[index]); };
  if (at(2) == 0xe8) return true;  // call relative: 5 bytes
  // call indirect: ff /2 with 1 to 6 more bytes
  for (const std::size_t length : {2U, 3U, 4U, 6U, 7U}) {
    const std::size_t first = kLongestCallBytes - length;
    if (at(first) == 0xff && (at(first + 1) >> 3U & 7U) == 2) return true;
  }
  return false;
}

}  // namespace probing::arch
