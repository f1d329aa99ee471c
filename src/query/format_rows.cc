// {"columns": [{"name", "type"}], "rows": [[…], …]}: the form that programs ask for. Columns keep
// their order and their names however often a name occurs, and no row repeats them.
#include "query/format.h"

namespace probing::query {
namespace {

const char* TypeName(const ValueType& type) {
  switch (type.id) {
    case DUCKDB_TYPE_BOOLEAN:
      return "BOOLEAN";
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_DECIMAL:
      return "DOUBLE";
    case DUCKDB_TYPE_BLOB:
      return "BLOB";
    case DUCKDB_TYPE_TIMESTAMP_TZ:
      return "TIMESTAMPTZ";
    case DUCKDB_TYPE_TIMESTAMP:
    case DUCKDB_TYPE_TIMESTAMP_S:
    case DUCKDB_TYPE_TIMESTAMP_MS:
    case DUCKDB_TYPE_TIMESTAMP_NS:
      return "TIMESTAMP";
    default:
      break;
  }
  if (type.is_number()) return "BIGINT";
  return type.is_nested() || type.is_json ? "JSON" : "VARCHAR";
}

class RowsWriter : public TextWriter {
 public:
  using TextWriter::TextWriter;

 private:
  void BeginText() override {
    buffer_ += "{\"columns\":[";
    for (std::size_t i = 0; i < names_.size(); ++i) {
      buffer_ += i == 0 ? "{\"name\":" : ",{\"name\":";
      AppendJsonString(buffer_, names_[i]);
      buffer_ += std::string(",\"type\":\"") + TypeName(types_[i]) + "\"}";
    }
    buffer_ += "],\"rows\":[";
  }
  void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) override {
    buffer_ += is_first_ ? "\n[" : ",\n[";
    is_first_ = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) buffer_ += ',';
      columns[i].AppendJson(buffer_, row);
    }
    buffer_ += ']';
  }
  void EndText() override { buffer_ += "]}\n"; }

  bool is_first_ = true;
};

}  // namespace

std::unique_ptr<FormatWriter> MakeRowsWriter(const DuckDb& api, Output output) {
  return std::make_unique<RowsWriter>(api, std::move(output));
}

}  // namespace probing::query
