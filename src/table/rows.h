// Rows: a small table in memory, as live tables produce it and as it travels between processes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "table/source.h"
#include "table/types.h"

namespace probing::table {

// NULL, int64 (also timestamps in ns), double, bool, string or bytes.
using Value = std::variant<std::monostate, std::int64_t, double, bool, std::string>;

// Column by column, in the order of the request that it answers.
class Rows {
 public:
  explicit Rows(std::vector<Type> types) : types_(std::move(types)), columns_(types_.size()) {}

  std::size_t width() const { return types_.size(); }
  std::size_t size() const { return columns_.empty() ? count_ : columns_[0].size(); }
  Type type(std::size_t column) const { return types_[column]; }
  const Value& at(std::size_t column, std::size_t row) const { return columns_[column][row]; }

  // REQUIRES: one value for each column, each NULL or of the column's type.
  void Add(std::vector<Value> row);

  // Why these are not all rows; "" when they are.
  const std::string& note() const { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

  std::string Encode() const;
  // What comes from another process is checked: a damaged text is an error.
  static Result<Rows> Decode(std::string_view encoded);

 private:
  std::vector<Type> types_;
  std::vector<std::vector<Value>> columns_;
  std::size_t count_ = 0;  // of rows without columns
  std::string note_;
};

// Reads `rows`, which it shares with other cursors of the same query. Strings that are not UTF-8
// are repaired (U+FFFD).
std::unique_ptr<Cursor> MakeRowsCursor(std::shared_ptr<const Rows> rows);

// A source whose rows are made by a function: once for each target, or once with nullptr for the
// host, as Table::about says.
struct RowsFunction {
  const Table* table;
  std::function<Result<Rows>(const Target* target, const std::vector<std::size_t>& columns)> make;
};
std::unique_ptr<Source> MakeRowsSource(RowsFunction function);

// Types of the requested columns.
std::vector<Type> TypesOf(const Table& table, const std::vector<std::size_t>& columns);

// Whether `text` is UTF-8, and the same with everything else replaced by U+FFFD.
bool IsUtf8(std::string_view text);
std::string ToUtf8(std::string_view text);

}  // namespace probing::table
