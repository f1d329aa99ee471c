// Batch: some rows of a table, copied out of a ring, column by column.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ring/format.h"

namespace probing::ring {

// Room for values of whatever type, not cleared first.
class BatchValues {
 public:
  unsigned char* Reserve(std::size_t bytes) {
    if (bytes > capacity_) {
      bytes_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
      capacity_ = bytes;
    }
    return bytes_.get();
  }
  template <typename T>
  const T* As() const {
    return reinterpret_cast<const T*>(bytes_.get());
  }

 private:
  std::unique_ptr<unsigned char[]> bytes_;
  std::size_t capacity_ = 0;
};

struct BatchColumn {
  ColumnType type = ColumnType::kInt64;
  std::vector<std::uint64_t> validity;  // one bit per row, 1: there is a value; as DuckDB has it
  BatchValues values;                   // 8 bytes each, 1 for bool; for texts the cells
  std::vector<std::string_view> texts;
};

class Batch {
 public:
  std::size_t rows() const { return rows_; }
  std::uint64_t lane_id() const { return lane_id_; }
  std::uint64_t first_row() const { return first_row_; }  // rows of the lane before this batch

  // `i` counts the columns of the scan. REQUIRES: the column has that type; timestamps are Int64s,
  // bytes are Texts. What is NULL has some value or other, for texts the empty one.
  std::span<const std::int64_t> Int64s(std::size_t i) const {
    return {columns_[i].values.As<std::int64_t>(), rows_};
  }
  std::span<const double> Doubles(std::size_t i) const { return {columns_[i].values.As<double>(), rows_}; }
  // 0 or 1 each.
  std::span<const std::uint8_t> Bools(std::size_t i) const {
    return {columns_[i].values.As<std::uint8_t>(), rows_};
  }
  // Short ones lie in the reader and are at the same address whenever they are equal and from the
  // dictionary; long ones lie in the batch.
  std::span<const std::string_view> Texts(std::size_t i) const { return columns_[i].texts; }

  std::span<const std::uint64_t> validity(std::size_t i) const { return columns_[i].validity; }
  bool IsNull(std::size_t i, std::size_t row) const {
    return (columns_[i].validity[row / 64] >> (row % 64) & 1) == 0;
  }

 private:
  friend class Scan;

  std::size_t rows_ = 0;
  std::uint64_t lane_id_ = 0;
  std::uint64_t first_row_ = 0;
  std::vector<BatchColumn> columns_;
  std::string heap_;  // of long texts
};

}  // namespace probing::ring
