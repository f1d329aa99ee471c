// Cell: one value on its way into a ring. Strings are borrowed until the row is written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace probing::ring {

struct Cell {
  enum class Kind : std::uint8_t { kNull, kInt64, kDouble, kBool, kString, kBytes, kTimestamp };

  union {
    std::int64_t integer;  // also bool and timestamp
    double real;
    const char* data;
  };
  std::uint32_t length;
  Kind kind;

  static Cell Null() { return Integer(0, Kind::kNull); }
  static Cell Int(std::int64_t value) { return Integer(value, Kind::kInt64); }
  static Cell Bool(bool value) { return Integer(value ? 1 : 0, Kind::kBool); }
  static Cell Timestamp(std::int64_t ns) { return Integer(ns, Kind::kTimestamp); }
  static Cell Double(double value) {
    Cell cell;
    cell.real = value;
    cell.length = 0;
    cell.kind = Kind::kDouble;
    return cell;
  }
  static Cell String(std::string_view text) { return Text(text, Kind::kString); }
  static Cell Bytes(std::string_view bytes) { return Text(bytes, Kind::kBytes); }

  std::string_view text() const { return {data, length}; }

 private:
  static Cell Integer(std::int64_t value, Kind kind) {
    Cell cell;
    cell.integer = value;
    cell.length = 0;
    cell.kind = kind;
    return cell;
  }
  static Cell Text(std::string_view text, Kind kind) {
    Cell cell;
    cell.data = text.data();
    // What does not fit into 32 bits is far beyond what is accepted, and stays so.
    cell.length = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), UINT32_MAX));
    cell.kind = kind;
    return cell;
  }
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
