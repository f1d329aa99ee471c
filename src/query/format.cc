#include "query/format.h"

#include <utility>

namespace probing::query {
namespace {

constexpr std::size_t kFlushBytes = 64 << 10;

}  // namespace

Result<void> TextWriter::Begin(duckdb_result& result) {
  for (idx_t i = 0; i < api_.column_count(&result); ++i) {
    names_.emplace_back(api_.column_name(&result, i));
    duckdb_logical_type type = api_.column_logical_type(&result, i);
    types_.push_back(DescribeType(api_, type));
    api_.destroy_logical_type(&type);
  }
  BeginText();
  return {};
}

Result<void> TextWriter::Write(duckdb_data_chunk chunk) {
  std::vector<ColumnView> columns;
  for (std::size_t i = 0; i < types_.size(); ++i)
    columns.emplace_back(api_, api_.data_chunk_get_vector(chunk, i), types_[i]);
  const idx_t count = api_.data_chunk_get_size(chunk);
  for (idx_t row = 0; row < count; ++row) {
    WriteRow(columns, row);
    RETURN_IF_ERROR(Flush(kFlushBytes));
  }
  return {};
}

Result<void> TextWriter::End() {
  EndText();
  return Flush(0);
}

Result<void> TextWriter::Flush(std::size_t if_larger_than) {
  if (buffer_.size() <= if_larger_than) return {};
  RETURN_IF_ERROR(output_(buffer_));
  buffer_.clear();
  return {};
}

std::unique_ptr<FormatWriter> MakeFormatWriter(Engine& engine, const FormatOptions& options, Output output,
                                               std::string_view sql) {
  const DuckDb& api = engine.api();
  switch (options.format) {
    case Format::kTable:
      return MakeTableWriter(api, options.width, sql, std::move(output));
    case Format::kCsv:
      return MakeCsvWriter(api, std::move(output));
    case Format::kJson:
    case Format::kJsonl:
      return MakeJsonWriter(api, options.format, std::move(output));
    case Format::kMarkdown:
      return MakeMarkdownWriter(api, std::move(output));
    case Format::kRows:
      return MakeRowsWriter(api, std::move(output));
    case Format::kFrame:
      return MakeFrameWriter(api, std::move(output));
    case Format::kArrow:
      return MakeArrowWriter(api, std::move(output));
    case Format::kParquet:
      return MakeParquetWriter(engine, std::move(output));
  }
  return nullptr;
}

}  // namespace probing::query
