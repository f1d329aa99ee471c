// SeriesTable: writes rows of a declared table into a ring, by the names of the columns.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ring/arena.h"

namespace probing::observe {

inline ring::Cell ToCell(std::optional<std::int64_t> value) {
  return value.has_value() ? ring::Cell::Int(*value) : ring::Cell::Null();
}
inline ring::Cell ToCell(std::optional<double> value) {
  return value.has_value() ? ring::Cell::Double(*value) : ring::Cell::Null();
}
// "" is NULL: here it means that nobody knows.
inline ring::Cell ToCell(std::string_view text) {
  return text.empty() ? ring::Cell::Null() : ring::Cell::String(text);
}

class SeriesTable {
 public:
  // `columns` are those that Write() gets, in its order. The arena outlives this. It is an error when
  // the table or a column is not declared.
  static Result<SeriesTable> Add(ring::Arena& arena, std::string_view table,
                                 std::span<const std::string_view> columns, std::uint64_t rows);

  // REQUIRES: one cell for each column. Text that is not UTF-8 is repaired. What does not fit into memory
  // is dropped and counted by the ring.
  void Write(std::int64_t time_ns, std::span<const ring::Cell> cells);

 private:
  SeriesTable(ring::Table* table, std::vector<std::uint32_t> positions)
      : table_(table), positions_(std::move(positions)) {}

  ring::Table* table_;
  std::vector<std::uint32_t> positions_;
};

}  // namespace probing::observe
