#include "unwind/expression.h"

#include <array>

#include "base/byte_reader.h"

namespace probing::unwind {
namespace {

constexpr std::size_t kMaxStack = 64;
constexpr int kMaxSteps = 1000;

// DW_OP_…
enum : std::uint8_t {
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConst8u = 0x0e,
  kConst8s = 0x0f,
  kConstu = 0x10,
  kConsts = 0x11,
  kDup = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kSwap = 0x16,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kMul = 0x1e,
  kNeg = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kShr = 0x25,
  kXor = 0x27,
  kEq = 0x29,
  kGe = 0x2a,
  kGt = 0x2b,
  kLe = 0x2c,
  kLt = 0x2d,
  kNe = 0x2e,
  kLit0 = 0x30,
  kLit31 = 0x4f,
  kBreg0 = 0x70,
  kBreg31 = 0x8f,
  kNop = 0x96,
};

Error Malformed(const char* what) {
  return {Code::kFailed, std::string("malformed expression: ") + what, ""};
}

class Stack {
 public:
  void Push(std::uint64_t value) {
    if (size_ == kMaxStack) {
      ok_ = false;
      return;
    }
    values_[size_++] = value;
  }
  std::uint64_t Pop() {
    if (size_ == 0) {
      ok_ = false;
      return 0;
    }
    return values_[--size_];
  }
  bool ok() const { return ok_; }

 private:
  std::array<std::uint64_t, kMaxStack> values_{};
  std::size_t size_ = 0;
  bool ok_ = true;
};

std::uint64_t Extended(std::int64_t value) { return static_cast<std::uint64_t>(value); }

Result<std::uint64_t> Combine(std::uint8_t operation, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  switch (operation) {
    case kAnd:
      return a & b;
    case kMinus:
      return a - b;
    case kMul:
      return a * b;
    case kOr:
      return a | b;
    case kPlus:
      return a + b;
    case kShl:
      return b < 64 ? a << b : 0;
    case kShr:
      return b < 64 ? a >> b : 0;
    case kXor:
      return a ^ b;
    case kEq:
      return std::uint64_t{x == y};
    case kGe:
      return std::uint64_t{x >= y};
    case kGt:
      return std::uint64_t{x > y};
    case kLe:
      return std::uint64_t{x <= y};
    case kLt:
      return std::uint64_t{x < y};
    case kNe:
      return std::uint64_t{x != y};
    default:
      return Malformed("unknown operation");
  }
}

// Constants. False when `operation` is something else.
bool TakeConstant(std::uint8_t operation, ByteReader& reader, std::uint64_t& value) {
  if (operation >= kLit0 && operation <= kLit31) {
    value = operation - kLit0;
    return true;
  }
  switch (operation) {
    case kConst1u:
      value = reader.Take<std::uint8_t>();
      return true;
    case kConst1s:
      value = Extended(reader.Take<std::int8_t>());
      return true;
    case kConst2u:
      value = reader.Take<std::uint16_t>();
      return true;
    case kConst2s:
      value = Extended(reader.Take<std::int16_t>());
      return true;
    case kConst4u:
      value = reader.Take<std::uint32_t>();
      return true;
    case kConst4s:
      value = Extended(reader.Take<std::int32_t>());
      return true;
    case kConst8u:
    case kConst8s:
      value = reader.Take<std::uint64_t>();
      return true;
    case kConstu:
      value = reader.TakeUleb();
      return true;
    case kConsts:
      value = Extended(reader.TakeSleb());
      return true;
    default:
      return false;
  }
}

Result<void> Step(std::uint8_t operation, ByteReader& reader, Stack& stack, const Registers& registers,
                  const process::Memory& memory) {
  std::uint64_t constant = 0;
  if (TakeConstant(operation, reader, constant)) {
    stack.Push(constant);
    return {};
  }
  if (operation >= kBreg0 && operation <= kBreg31) {
    const std::uint64_t offset = Extended(reader.TakeSleb());
    const std::size_t number = operation - kBreg0;
    if (!registers.Has(number))
      return Error{Code::kNotFound, "an expression needs a register nobody knows", ""};
    stack.Push(registers.Get(number) + offset);
    return {};
  }
  const std::uint64_t top = operation == kNop ? 0 : stack.Pop();
  switch (operation) {
    case kNop:
    case kDrop:
      return {};
    case kDeref: {
      ASSIGN_OR_RETURN(const std::uint64_t value, memory.ReadValue(process::RemotePtr<std::uint64_t>{top}));
      stack.Push(value);
      return {};
    }
    case kDup:
      stack.Push(top);
      stack.Push(top);
      return {};
    case kNeg:
      stack.Push(0 - top);
      return {};
    case kNot:
      stack.Push(~top);
      return {};
    case kPlusUconst:
      stack.Push(top + reader.TakeUleb());
      return {};
    default:
      break;
  }
  const std::uint64_t second = stack.Pop();
  if (operation == kSwap || operation == kOver) {
    stack.Push(operation == kSwap ? top : second);
    if (operation == kOver) stack.Push(top);
    stack.Push(second);
    return {};
  }
  ASSIGN_OR_RETURN(const std::uint64_t value, Combine(operation, second, top));
  stack.Push(value);
  return {};
}

}  // namespace

Result<std::uint64_t> Evaluate(std::span<const std::byte> expression, const Registers& registers,
                               const process::Memory& memory, std::optional<std::uint64_t> initial) {
  Stack stack;
  if (initial) stack.Push(*initial);
  ByteReader reader(expression);
  for (int steps = 0; !reader.AtEnd(); ++steps) {
    if (steps == kMaxSteps) return Malformed("too long");
    const auto operation = reader.Take<std::uint8_t>();
    RETURN_IF_ERROR(Step(operation, reader, stack, registers, memory));
    if (!reader.ok() || !stack.ok()) return Malformed("cut off, or the stack is too small or too large");
  }
  const std::uint64_t result = stack.Pop();
  if (!stack.ok()) return Malformed("empty");
  return result;
}

}  // namespace probing::unwind
