// A cell that takes only what its column holds, and is NULL until it is given something. Rows made of them
// (written_rows.h) are filled by the names of their columns: two that are swapped do not compile, or are read
// wrong by whoever reads the line. Strings are borrowed until the row is written.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "ring/cell.h"

namespace probing::table {

template <ring::Cell::Kind kKind, typename Value>
class TypedCell {
 public:
  TypedCell() : cell_(ring::Cell::Null()) {}
  // No other type is taken for it, so that a number of seconds cannot become one of steps.
  template <typename T>
    requires(std::same_as<Value, std::int64_t>       ? std::integral<T> && !std::same_as<T, bool>
             : std::same_as<Value, std::string_view> ? std::convertible_to<T, std::string_view>
                                                     : std::same_as<T, Value>)
  TypedCell(const T& value) : cell_(Make(value)) {}  // NOLINT(google-explicit-constructor)
  TypedCell(const std::optional<Value>& value)       // NOLINT(google-explicit-constructor)
      : cell_(value.has_value() ? Make(*value) : ring::Cell::Null()) {}

  // What ring::Table::Intern() has found in this column.
  static TypedCell Interned(const ring::Cell& cell) {
    TypedCell typed;
    typed.cell_ = cell;
    return typed;
  }

  const ring::Cell& cell() const { return cell_; }

 private:
  static ring::Cell Make(Value value) {
    using enum ring::Cell::Kind;
    if constexpr (kKind == kInt64) return ring::Cell::Int(value);
    if constexpr (kKind == kTimestamp) return ring::Cell::Timestamp(value);
    if constexpr (kKind == kDouble) return ring::Cell::Double(value);
    if constexpr (kKind == kBool) return ring::Cell::Bool(value);
    if constexpr (kKind == kString) return ring::Cell::String(value);
    if constexpr (kKind == kBytes) return ring::Cell::Bytes(value);
  }

  ring::Cell cell_;
};

using Int64Cell = TypedCell<ring::Cell::Kind::kInt64, std::int64_t>;
using TimestampCell = TypedCell<ring::Cell::Kind::kTimestamp, std::int64_t>;  // ns since the epoch
using DoubleCell = TypedCell<ring::Cell::Kind::kDouble, double>;
using BoolCell = TypedCell<ring::Cell::Kind::kBool, bool>;
using StringCell = TypedCell<ring::Cell::Kind::kString, std::string_view>;

// A row that is made from a declaration.
template <typename T>
concept WrittenRow = requires(const T& row) {
  { T::kTable } -> std::convertible_to<std::string_view>;
  row.Cells();
};

}  // namespace probing::table
