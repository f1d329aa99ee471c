#include "cpython/scalars.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "cpython/literal.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxCharacters = 80;
constexpr std::uint64_t kMaxIntegerDigits = 8;  // 72 decimal ones
constexpr std::uint64_t kMaxIntegerSize = std::uint64_t{1} << 32;

Error NoObject() { return {Code::kFailed, "not a Python object", ""}; }

}  // namespace

Result<std::string> DescribeInteger(const Memory& memory, const ObjectLayout& layout, RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto head, memory.ReadValue((object + layout.value).As<std::int64_t>()));
  const auto bits = static_cast<std::uint64_t>(head);
  const bool negative = layout.int_has_tag ? (bits & 3) == 2 : head < 0;
  const std::uint64_t size = layout.int_has_tag ? bits >> 3 : negative ? -bits : bits;
  const RemoteAddress digits = object + layout.value + 8;
  if (size > kMaxIntegerSize) return NoObject();
  if (size <= kMaxIntegerDigits) {
    std::vector<std::uint32_t> all(size);
    RETURN_IF_ERROR(memory.Read(digits, std::as_writable_bytes(std::span(all))));
    return FormatInteger(all, negative);
  }
  ASSIGN_OR_RETURN(const auto highest, memory.ReadValue((digits + (size - 1) * 4).As<std::uint32_t>()));
  const std::uint64_t width = (size - 1) * kIntegerDigitBits + static_cast<unsigned>(std::bit_width(highest));
  return "<int, " + std::to_string(width) + " bits>";
}

Result<std::string> DescribeText(const Memory& memory, const Offsets& offsets, RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto text, ReadUnicode(memory, offsets, object, kMaxCharacters + 1));
  return QuoteText(text, kMaxCharacters);
}

Result<std::string> DescribeBytes(const Memory& memory, const Offsets& offsets, RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto size, memory.ReadValue((object + offsets.bytes.size).As<std::int64_t>()));
  if (size < 0) return NoObject();
  std::vector<std::uint8_t> start(
      std::min(static_cast<std::uint64_t>(size), std::uint64_t{kMaxCharacters + 1}));
  RETURN_IF_ERROR(memory.Read(object + offsets.bytes.data, std::as_writable_bytes(std::span(start))));
  return QuoteBytes(start, kMaxCharacters);
}

}  // namespace probing::cpython
