#include "cpython/line_table.h"

namespace probing::cpython {
namespace {

// Lines are added up in 64 bits, so that hostile tables cannot overflow; what is no line is 0.
int AsLine(std::int64_t line) { return line > 0 && line <= INT32_MAX ? static_cast<int>(line) : 0; }

// Objects/lnotab_notes.txt of CPython 3.9: the last entry at or before the position counts. Up to 3.5 lines
// only grow.
int FindInLnotab(LineTableFormat format, std::span<const std::uint8_t> table, int first_line,
                 std::int64_t position) {
  std::int64_t line = first_line;
  std::int64_t at = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    at += table[i];
    if (at > position) break;
    line += format == LineTableFormat::kOldLnotab ? table[i + 1] : static_cast<std::int8_t>(table[i + 1]);
  }
  return AsLine(line);
}

// Objects/lnotab_notes.txt of CPython 3.10: each entry covers a range of its own.
int FindInLineTable(std::span<const std::uint8_t> table, int first_line, std::int64_t position) {
  constexpr std::int8_t kNoLine = -128;
  std::int64_t line = first_line;
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = static_cast<std::int8_t>(table[i + 1]);
    end += table[i];
    if (delta != kNoLine) line += delta;
    if (end > position) return delta == kNoLine ? 0 : AsLine(line);
  }
  return 0;
}

// Six bits per byte, lowest first; bit 6 says that more follow. Bit 0 of the value is the sign.
std::int64_t ReadSignedVarint(std::span<const std::uint8_t> bytes) {
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const std::uint8_t byte : bytes) {
    value |= std::uint64_t{byte & 0x3fU} << shift;
    shift += 6;
    if ((byte & 0x40U) == 0 || shift >= 36) break;
  }
  const auto magnitude = static_cast<std::int64_t>(value >> 1);
  return (value & 1U) != 0 ? -magnitude : magnitude;
}

// Objects/locations.md of CPython 3.11 and later. An entry starts with a byte which has its top
// bit set: kind in bits 3 to 6, code units covered minus one in bits 0 to 2.
int FindInLocations(std::span<const std::uint8_t> table, int first_line, std::int64_t position) {
  constexpr unsigned kOneLine0 = 10;
  constexpr unsigned kOneLine2 = 12;
  constexpr unsigned kNoColumns = 13;
  constexpr unsigned kLong = 14;
  constexpr unsigned kNone = 15;
  constexpr int kCodeUnitBytes = 2;
  std::int64_t line = first_line;
  std::int64_t end = 0;
  std::size_t i = 0;
  while (i < table.size()) {
    const unsigned kind = (table[i] >> 3) & 15U;
    end += (std::int64_t{table[i]} % 8 + 1) * kCodeUnitBytes;
    ++i;
    if (kind == kNoColumns || kind == kLong) line += ReadSignedVarint(table.subspan(i));
    if (kind >= kOneLine0 && kind <= kOneLine2) line += kind - kOneLine0;
    if (end > position) return kind == kNone ? 0 : AsLine(line);
    while (i < table.size() && (table[i] & 0x80U) == 0) ++i;
  }
  return 0;
}

}  // namespace

int FindLine(LineTableFormat format, std::span<const std::uint8_t> table, int first_line,
             std::int64_t position) {
  if (position < 0) return AsLine(first_line);
  switch (format) {
    case LineTableFormat::kOldLnotab:
    case LineTableFormat::kLnotab:
      return FindInLnotab(format, table, first_line, position);
    case LineTableFormat::kLineTable:
      return FindInLineTable(table, first_line, position);
    case LineTableFormat::kLocations:
      return FindInLocations(table, first_line, position);
  }
  return 0;
}

}  // namespace probing::cpython
