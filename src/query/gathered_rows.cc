#include "query/gathered_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "table/rows.h"
#include "table/text.h"

namespace probing::query {
namespace {

using table::ColumnOut;
using table::Type;

template <typename T>
T Load(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

// How many bytes the value of a column takes at the front of `rest`; 0 when it is not a value.
std::size_t ValueBytes(std::string_view rest, Type type) {
  if (rest.empty() || static_cast<unsigned char>(rest[0]) > 1) return 0;
  if (rest[0] == 0) return 1;
  switch (type) {
    case Type::kInt64:
    case Type::kTimestamp:
    case Type::kDouble:
      return rest.size() >= 9 ? 9 : 0;
    case Type::kBool:
      return rest.size() >= 2 && static_cast<unsigned char>(rest[1]) <= 1 ? 2 : 0;
    case Type::kString:
    case Type::kBytes: {
      if (rest.size() < 9) return 0;
      const char* at = rest.data() + 1;
      const auto size = Load<std::uint64_t>(at);
      if (size > rest.size() - 9 || size > UINT32_MAX) return 0;
      const bool is_fine = type == Type::kBytes || table::IsUtf8(rest.substr(9, size));
      return is_fine ? 9 + size : 0;
    }
  }
  return 0;
}

class GatheredCursor : public table::Cursor {
 public:
  explicit GatheredCursor(std::shared_ptr<const GatheredRows> rows) : rows_(std::move(rows)) {
    for (std::size_t c = 0; c < rows_->width(); ++c) at_.push_back(rows_->column(c));
  }

  // Fewer columns than there are when only the number of rows is asked for.
  Result<std::size_t> Next(std::span<ColumnOut> columns) override {
    const std::size_t count = std::min(table::kBatchRows, rows_->size() - done_);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (std::size_t row = 0; row < count; ++row) Put(columns[c], c, row);
    }
    done_ += count;
    return count;
  }

 private:
  void Put(ColumnOut& out, std::size_t column, std::size_t row) {
    const char*& at = at_[column];
    if (Load<char>(at) == 0) return out.SetNull(row);
    switch (rows_->type(column)) {
      case Type::kInt64:
      case Type::kTimestamp:
        out.values<std::int64_t>()[row] = Load<std::int64_t>(at);
        break;
      case Type::kDouble:
        out.values<double>()[row] = Load<double>(at);
        break;
      case Type::kBool:
        out.values<bool>()[row] = Load<char>(at) != 0;
        break;
      case Type::kString:
      case Type::kBytes: {
        const auto size = Load<std::uint64_t>(at);
        out.values<table::Text>()[row] = table::Text(std::string_view(at, size));
        at += size;
      }
    }
  }

  std::shared_ptr<const GatheredRows> rows_;
  std::vector<const char*> at_;
  std::size_t done_ = 0;
};

}  // namespace

std::vector<Type> TravellingTypes(const std::vector<Type>& types) {
  std::vector<Type> travelling;
  for (const Type type : types) travelling.push_back(type == Type::kTimestamp ? Type::kInt64 : type);
  if (travelling.empty()) travelling.push_back(Type::kBool);
  return travelling;
}

Result<GatheredRows> GatheredRows::Parse(std::string text, const std::vector<Type>& types) {
  const Error damaged{Code::kFailed, "it sent rows that are damaged, or of other columns than asked for",
                      "is it of the same version? see `probing cluster nodes`"};
  GatheredRows rows;
  rows.types_ = TravellingTypes(types);
  rows.text_ = std::make_unique<const std::string>(std::move(text));
  const std::string_view all = *rows.text_;
  const std::size_t head_bytes = 2 * sizeof(std::uint64_t) + rows.types_.size();
  if (all.size() < head_bytes) return damaged;
  const char* at = all.data();
  if (Load<std::uint64_t>(at) != rows.types_.size()) return damaged;
  const auto size = Load<std::uint64_t>(at);
  for (const Type type : rows.types_) {
    if (Load<Type>(at) != type) return damaged;
  }
  std::string_view rest = all.substr(head_bytes);
  if (size > rest.size()) return damaged;  // every value takes a byte at least
  rows.size_ = size;
  for (const Type type : rows.types_) {
    rows.offsets_.push_back(all.size() - rest.size());
    for (std::size_t row = 0; row < rows.size_; ++row) {
      const std::size_t bytes = ValueBytes(rest, type);
      if (bytes == 0) return damaged;
      rest.remove_prefix(bytes);
    }
  }
  if (!rest.empty()) return damaged;
  return rows;
}

std::int64_t GatheredRows::Number(std::size_t column, std::size_t row) const {
  const char* at = this->column(column);
  for (;; --row) {
    const bool is_null = Load<char>(at) == 0;
    const std::int64_t number = is_null ? 0 : Load<std::int64_t>(at);
    if (row == 0) return number;
  }
}

std::unique_ptr<table::Cursor> MakeGatheredCursor(std::shared_ptr<const GatheredRows> rows) {
  return std::make_unique<GatheredCursor>(std::move(rows));
}

}  // namespace probing::query
