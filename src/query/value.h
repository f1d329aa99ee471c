// Values of a result as text, of every type that DuckDB has.
//
// Text is exact: int64 has all its digits, a double the shortest form that reads back as the same
// number, a timestamp all its fraction. Times with a zone are shown in UTC.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "query/duckdb_api.h"

namespace probing::query {

// A DuckDB type, taken apart once for each result.
struct ValueType {
  duckdb_type id = DUCKDB_TYPE_INVALID;
  duckdb_type stored_as = DUCKDB_TYPE_INVALID;  // of DECIMAL and ENUM
  int width = 38;                               // of DECIMAL, in digits
  int scale = 0;                                // of DECIMAL
  std::uint64_t array_size = 0;
  bool is_json = false;             // text that is JSON already
  std::vector<ValueType> children;  // LIST, ARRAY: 1; MAP: key, value; STRUCT, UNION: members
  std::vector<std::string> names;   // of STRUCT and UNION members; labels of an ENUM

  bool is_number() const;  // shown to the right
  bool is_nested() const { return !children.empty(); }
};
ValueType DescribeType(const DuckDb& api, duckdb_logical_type type);

// A column of a chunk, ready to be read row by row. Valid as long as the chunk.
class ColumnView {
 public:
  ColumnView(const DuckDb& api, duckdb_vector vector, const ValueType& type)
      : api_(api),
        type_(type),
        vector_(vector),
        data_(api.vector_get_data(vector)),
        validity_(api.vector_get_validity(vector)) {}

  bool IsNull(std::uint64_t row) const {
    return validity_ != nullptr && ((validity_[row / 64] >> (row % 64)) & 1) == 0;
  }
  template <typename T>
  const T& at(std::uint64_t row) const {
    return static_cast<const T*>(data_)[row];
  }
  const ValueType& type() const { return type_; }
  std::string_view bytes(std::uint64_t row) const;  // of VARCHAR and BLOB
  __int128 Integer(std::uint64_t row) const;        // of HUGEINT; of DECIMAL and ENUM as stored

  // REQUIRES: !IsNull(row). A NULL inside a nested value is "NULL".
  void AppendText(std::string& out, std::uint64_t row) const;
  // JSON, also for NULL. NaN and the infinities, which JSON has no numbers for, are strings.
  void AppendJson(std::string& out, std::uint64_t row) const;

 private:
  void AppendNestedText(std::string& out, std::uint64_t row) const;
  void AppendNestedJson(std::string& out, std::uint64_t row) const;
  ColumnView Child(std::size_t index) const;

  const DuckDb& api_;
  const ValueType& type_;
  duckdb_vector vector_;
  const void* data_;
  const std::uint64_t* validity_;
};

void AppendJsonString(std::string& out, std::string_view text);

}  // namespace probing::query
