#include "cpython/scalars.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "cpython/block.h"
#include "cpython/literal.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxCharacters = 160;
constexpr std::uint64_t kMaxIntegerDigits = 8;  // 72 decimal ones
constexpr std::uint64_t kMaxIntegerSize = std::uint64_t{1} << 32;

Error NoObject() { return {Code::kFailed, "not a Python object", ""}; }

Result<std::string> QuoteStart(const Memory& memory, RemoteAddress data, std::int64_t size) {
  if (size < 0) return NoObject();
  std::vector<std::uint8_t> start(
      std::min(static_cast<std::uint64_t>(size), std::uint64_t{kMaxCharacters + 1}));
  if (!start.empty()) RETURN_IF_ERROR(memory.Read(data, std::as_writable_bytes(std::span(start))));
  return QuoteBytes(start, kMaxCharacters);
}

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

Result<std::string> DescribeComplex(const Memory& memory, const ObjectLayout& layout, RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto parts, memory.ReadValue((object + layout.value).As<std::array<double, 2>>()));
  const std::string text = FormatComplex(FormatFloat(parts[0]), FormatFloat(parts[1]));
  return parts[0] == 0 && !std::signbit(parts[0]) ? text : "(" + text + ")";
}

Result<std::string> DescribeBytes(const Memory& memory, const Offsets& offsets, RemoteAddress object) {
  ASSIGN_OR_RETURN(const auto size, memory.ReadValue((object + offsets.bytes.size).As<std::int64_t>()));
  return QuoteStart(memory, object + offsets.bytes.data, size);
}

Result<std::string> DescribeByteArray(const Memory& memory, const ObjectLayout& layout,
                                      RemoteAddress object) {
  // size, allocated, the memory, the first byte in it
  ASSIGN_OR_RETURN(const Block head, Block::Read(memory, object + layout.value, 32));
  ASSIGN_OR_RETURN(const std::string text,
                   QuoteStart(memory, head.GetPointer(24), head.Get<std::int64_t>(0)));
  return "bytearray(" + text + ")";
}

}  // namespace probing::cpython
