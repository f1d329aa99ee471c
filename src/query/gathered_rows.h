// Rows that came from another host, read where they lie.
//
// The text is that of table::Rows::Encode(), which the format `frame` writes: the number of columns and of
// rows, the type of each column, then column by column for each value a byte (0 for NULL) and the value. It
// comes from the network, so all of it is checked before any of it is used.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "table/source.h"

namespace probing::query {

class GatheredRows {
 public:
  // An error unless the text has exactly these columns and nothing else. Without columns there is one
  // of type bool, so that the rows can be counted.
  static Result<GatheredRows> Parse(std::string text, const std::vector<table::Type>& types);

  std::size_t size() const { return size_; }
  std::size_t width() const { return types_.size(); }
  table::Type type(std::size_t column) const { return types_[column]; }
  // Where its values begin.
  const char* column(std::size_t column) const { return text_->data() + offsets_[column]; }

  // The value of a row in a column of type int64, NULL being 0. REQUIRES: both are there.
  std::int64_t Number(std::size_t column, std::size_t row) const;

 private:
  GatheredRows() = default;

  std::unique_ptr<const std::string> text_;  // where it is, so that texts keep their address
  std::vector<table::Type> types_;
  std::vector<std::size_t> offsets_;
  std::size_t size_ = 0;
};

// The types that travel: times as nanoseconds.
std::vector<table::Type> TravellingTypes(const std::vector<table::Type>& types);

std::unique_ptr<table::Cursor> MakeGatheredCursor(std::shared_ptr<const GatheredRows> rows);

}  // namespace probing::query
