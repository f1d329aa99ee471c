// A result as table::Rows::Encode() writes rows, column by column: for the probingd of another host, which
// reads it with GatheredRows. Only the types of tables travel, times as numbers.
#include <cstring>

#include "query/format.h"
#include "table/text.h"

namespace probing::query {
namespace {

using table::Type;

std::optional<Type> TypeOf(duckdb_type id) {
  switch (id) {
    case DUCKDB_TYPE_BIGINT:
      return Type::kInt64;
    case DUCKDB_TYPE_DOUBLE:
      return Type::kDouble;
    case DUCKDB_TYPE_BOOLEAN:
      return Type::kBool;
    case DUCKDB_TYPE_VARCHAR:
      return Type::kString;
    case DUCKDB_TYPE_BLOB:
      return Type::kBytes;
    default:
      return std::nullopt;
  }
}

void PutBytes(std::string& out, const void* data, std::size_t size) {
  out.append(static_cast<const char*>(data), size);
}

class FrameWriter : public FormatWriter {
 public:
  FrameWriter(const DuckDb& api, Output output) : api_(api), output_(std::move(output)) {}

  Result<void> Begin(duckdb_result& result) override {
    for (idx_t i = 0; i < api_.column_count(&result); ++i) {
      duckdb_logical_type logical = api_.column_logical_type(&result, i);
      const std::optional<Type> type = TypeOf(DescribeType(api_, logical).id);
      api_.destroy_logical_type(&logical);
      if (!type)
        return Error{Code::kUsage, "the format frame has no type for every column of this result",
                     "it takes BIGINT, DOUBLE, BOOLEAN, VARCHAR and BLOB: cast the others"};
      types_.push_back(*type);
    }
    columns_.resize(types_.size());
    return {};
  }

  Result<void> Write(duckdb_data_chunk chunk) override {
    const idx_t count = api_.data_chunk_get_size(chunk);
    for (std::size_t c = 0; c < types_.size(); ++c) {
      duckdb_vector vector = api_.data_chunk_get_vector(chunk, c);
      const std::uint64_t* validity = api_.vector_get_validity(vector);
      const auto* data = static_cast<const char*>(api_.vector_get_data(vector));
      for (idx_t row = 0; row < count; ++row) {
        const bool is_valid = validity == nullptr || (validity[row / 64] >> (row % 64) & 1) != 0;
        columns_[c].push_back(static_cast<char>(is_valid));
        if (is_valid) Put(columns_[c], types_[c], data, row);
      }
    }
    rows_ += count;
    return {};
  }

  Result<void> End() override {
    std::string head;
    const std::uint64_t sizes[2] = {types_.size(), rows_};
    PutBytes(head, sizes, sizeof(sizes));
    for (const Type type : types_) head.push_back(static_cast<char>(type));
    RETURN_IF_ERROR(output_(head));
    for (std::string& column : columns_) {
      if (!column.empty()) RETURN_IF_ERROR(output_(column));
      column = {};
    }
    return {};
  }

 private:
  static void Put(std::string& out, Type type, const char* data, idx_t row) {
    switch (type) {
      case Type::kInt64:
      case Type::kTimestamp:
      case Type::kDouble:
        return PutBytes(out, data + row * 8, 8);
      case Type::kBool:
        return out.push_back(static_cast<char>(data[row] != 0));
      case Type::kString:
      case Type::kBytes: {
        table::Text text;
        std::memcpy(&text, data + row * sizeof(text), sizeof(text));
        const std::uint64_t size = text.view().size();
        PutBytes(out, &size, sizeof(size));
        out += text.view();
      }
    }
  }

  const DuckDb& api_;
  Output output_;
  std::vector<Type> types_;
  std::vector<std::string> columns_;
  std::uint64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<FormatWriter> MakeFrameWriter(const DuckDb& api, Output output) {
  return std::make_unique<FrameWriter>(api, std::move(output));
}

}  // namespace probing::query
