#include "arch/prologue.h"

#include "base/byte_reader.h"

namespace probing::arch {
namespace {

using dwarf::kStackPointer;  // also its number in instructions, where it is not the zero register

constexpr int kMaxStackBytes = 1 << 24;

// `bits` of an instruction from bit `from` on, as a signed number.
std::int32_t Signed(std::uint32_t code, unsigned from, unsigned bits) {
  const auto shifted = static_cast<std::int32_t>(code << (32 - from - bits));
  return shifted >> (32 - bits);
}

std::uint32_t Field(std::uint32_t code, unsigned from, unsigned bits) {
  return code >> from & ((1U << bits) - 1);
}

struct Pattern {
  std::uint32_t mask, value;
  bool Matches(std::uint32_t code) const { return (code & mask) == value; }
};

// Stores of one register or two; of floating point registers those whose bit 26 is set.
constexpr Pattern kStorePair{0xfbc00000, 0xa9000000};
constexpr Pattern kStorePairPush{0xfbc00000, 0xa9800000};
constexpr Pattern kStoreFloatPair{0xffc00000, 0x6d000000};
constexpr Pattern kStoreFloatPairPush{0xffc00000, 0x6d800000};
constexpr Pattern kStore{0xffc00000, 0xf9000000};
constexpr Pattern kStorePush{0xfbe00c00, 0xf8000c00};
constexpr Pattern kAnyWriteBack{0x3b200400, 0x38000400};      // one register, before or after
constexpr Pattern kAnyPairWriteBack{0x3a800000, 0x28800000};  // two
constexpr Pattern kAddImmediate{0xff800000, 0x91000000};
constexpr Pattern kSubtractImmediate{0xff800000, 0xd1000000};
constexpr Pattern kAnyImmediate{0x9f800000, 0x91000000};  // add and sub, without flags
constexpr Pattern kAndImmediate{0x9f800000, 0x92000000};
constexpr Pattern kExtended{0xbfe00000, 0x8b200000};
constexpr Pattern kBranches[] = {
    {0x7c000000, 0x14000000},  // b, bl
    {0xfe000000, 0x54000000},  // b.cond
    {0x7e000000, 0x34000000},  // cbz, cbnz
    {0x7e000000, 0x36000000},  // tbz, tbnz
    {0xfe000000, 0xd6000000},  // br, blr, ret
};

class Reading {
 public:
  // kContinue: understood. kEnd: the prologue is over.
  enum class Outcome : std::uint8_t { kContinue, kEnd, kLost };

  Outcome Step(std::uint32_t code) {
    for (const Pattern& branch : kBranches) {
      if (branch.Matches(code)) return Outcome::kEnd;
    }
    const std::uint32_t to = Field(code, 0, 5), base = Field(code, 5, 5);
    if (base == kStackPointer) {
      const bool is_float_pair = kStoreFloatPair.Matches(code) || kStoreFloatPairPush.Matches(code);
      if (kStorePairPush.Matches(code) || kStoreFloatPairPush.Matches(code))
        return PushPair(code, is_float_pair);
      if (kStorePair.Matches(code) && !is_float_pair) return SavePair(code, Signed(code, 15, 7) * 8);
      if (kStorePush.Matches(code)) return PushOne(code);
      if (kStore.Matches(code)) return Save(to, static_cast<std::int32_t>(Field(code, 10, 12)) * 8);
      if (kAnyWriteBack.Matches(code) || kAnyPairWriteBack.Matches(code))
        return Outcome::kEnd;  // an epilogue
      if (kAddImmediate.Matches(code) && to == dwarf::kFramePointer) return UseFramePointer(code);
      if (kSubtractImmediate.Matches(code) && to == kStackPointer) return Grow(Immediate(code));
    }
    const bool writes_stack_pointer =
        to == kStackPointer &&
        (kAnyImmediate.Matches(code) || kAndImmediate.Matches(code) || kExtended.Matches(code));
    return writes_stack_pointer && !uses_frame_pointer_ ? Outcome::kLost : Outcome::kContinue;
  }

  Prologue Found() const {
    Prologue found = found_;
    if (!uses_frame_pointer_) found.caller_offset = depth_;
    return found;
  }

 private:
  static std::int32_t Immediate(std::uint32_t code) {
    const auto value = static_cast<std::int32_t>(Field(code, 10, 12));
    return Field(code, 22, 1) != 0 ? value << 12U : value;
  }

  Outcome Grow(std::int32_t bytes) {
    depth_ += bytes;
    return depth_ >= 0 && depth_ < kMaxStackBytes ? Outcome::kContinue : Outcome::kLost;
  }

  // Only the first time: what is stored later is another value. `at` is above the stack pointer.
  Outcome Save(std::uint32_t number, std::int32_t at) {
    if (dwarf::IsCalleeSaved(number) && found_.saved_at[number] == 0 && at < depth_)
      found_.saved_at[number] = at - depth_;
    return Outcome::kContinue;
  }

  Outcome SavePair(std::uint32_t code, std::int32_t at) {
    Save(Field(code, 0, 5), at);
    return Save(Field(code, 10, 5), at + 8);
  }

  Outcome PushPair(std::uint32_t code, bool is_float) {
    const Outcome outcome = Grow(-Signed(code, 15, 7) * 8);
    if (outcome == Outcome::kContinue && !is_float) SavePair(code, 0);
    return outcome;
  }

  Outcome PushOne(std::uint32_t code) {
    const Outcome outcome = Grow(-Signed(code, 12, 9));
    const bool is_float = Field(code, 26, 1) != 0;
    if (outcome == Outcome::kContinue && !is_float) Save(Field(code, 0, 5), 0);
    return outcome;
  }

  Outcome UseFramePointer(std::uint32_t code) {
    uses_frame_pointer_ = true;
    found_.caller_register = dwarf::kFramePointer;
    found_.caller_offset = depth_ - Immediate(code);
    return Outcome::kContinue;
  }

  Prologue found_;
  std::int32_t depth_ = 0;  // from sp up to the caller's
  bool uses_frame_pointer_ = false;
};

}  // namespace

std::optional<Prologue> ReadPrologue(std::span<const std::byte> code) {
  Reading reading;
  ByteReader reader(code);
  while (!reader.AtEnd()) {
    const auto instruction = reader.Take<std::uint32_t>();
    if (!reader.ok()) break;
    const auto outcome = reading.Step(instruction);
    if (outcome == Reading::Outcome::kLost) return std::nullopt;
    if (outcome == Reading::Outcome::kEnd) break;
  }
  return reading.Found();
}

bool EndsWithCall(std::span<const std::byte, kLongestCallBytes> bytes) {
  constexpr Pattern kCalls[] = {
      {0xfc000000, 0x94000000},  // bl
      {0xfffffc1f, 0xd63f0000},  // blr
      {0xfefff800, 0xd63f0800},  // blraa, blrab and those with zero
  };
  const auto code = ByteReader(bytes).Take<std::uint32_t>();
  for (const Pattern& call : kCalls) {
    if (call.Matches(code)) return true;
  }
  return false;
}

}  // namespace probing::arch
