// Cell: one value on its way into a ring. Strings are borrowed until the row is written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace probing::ring {

class Cell {
 public:
  enum class Kind : std::uint8_t { kNull, kInt64, kDouble, kBool, kString, kBytes, kTimestamp, kInterned };

  Cell() = default;  // whatever was in the memory
  static Cell Null() { return Cell(0, Kind::kNull); }
  static Cell Int(std::int64_t value) { return Cell(static_cast<std::uint64_t>(value), Kind::kInt64); }
  static Cell Bool(bool value) { return Cell(value ? 1 : 0, Kind::kBool); }
  static Cell Timestamp(std::int64_t ns) { return Cell(static_cast<std::uint64_t>(ns), Kind::kTimestamp); }
  static Cell Double(double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return Cell(bits, Kind::kDouble);
  }
  static Cell String(std::string_view text) { return Cell(text, Kind::kString); }
  static Cell Bytes(std::string_view bytes) { return Cell(bytes, Kind::kBytes); }
  // What Table::Intern() has found, in a column of that table.
  static Cell Interned(std::uint64_t entry) { return Cell(entry, Kind::kInterned); }

  Kind kind() const { return static_cast<Kind>(meta_ & 0xff); }
  std::uint64_t bits() const { return bits_; }  // as a column holds them, except for text
  std::int64_t integer() const { return static_cast<std::int64_t>(bits_); }
  double real() const {
    double value;
    std::memcpy(&value, &bits_, sizeof(value));
    return value;
  }
  std::uint64_t length() const { return meta_ >> 8; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bits_), length()}; }

 private:
  Cell(std::uint64_t bits, Kind kind) : bits_(bits), meta_(static_cast<std::uint64_t>(kind)) {}
  Cell(std::string_view text, Kind kind)
      : bits_(reinterpret_cast<std::uint64_t>(text.data())),
        // Far beyond what is accepted, and stays so.
        meta_(std::min<std::uint64_t>(text.size(), 1ULL << 48) << 8 | static_cast<std::uint64_t>(kind)) {}

  // Two whole words, because the stores of a row have to be through before a lane can be taken.
  std::uint64_t bits_;
  std::uint64_t meta_;  // length << 8 | kind
};
static_assert(sizeof(Cell) == 16);

// What became of a row. Only kWritten can be read; the next two are counted in the table.
enum class WriteStatus : std::uint8_t {
  kWritten,
  kDropped,  // every lane was busy or there was no memory
  kRefused,  // a value of the wrong type, or longer than kMaxValueBytes
  kOff,      // closed, or this is a forked child; nobody counts
};

}  // namespace probing::ring
