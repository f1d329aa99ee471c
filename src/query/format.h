// Results as bytes: one writer for each format (request.h), working chunk by chunk in bounded
// memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "query/engine.h"
#include "query/request.h"
#include "query/value.h"

namespace probing::query {

class FormatWriter : public ResultSink {
 public:
  // Called once, after the last chunk of a query that succeeded.
  virtual Result<void> End() = 0;
};

// `sql` tells the table for people what numbers are measured in. REQUIRES: `engine` outlives the writer.
std::unique_ptr<FormatWriter> MakeFormatWriter(Engine& engine, const FormatOptions& options, Output output,
                                               std::string_view sql = "");

// What text formats share: the columns of a result, and a buffer that is handed on when it is large.
class TextWriter : public FormatWriter {
 public:
  TextWriter(const DuckDb& api, Output output) : api_(api), output_(std::move(output)) {}

  Result<void> Begin(duckdb_result& result) final;
  Result<void> Write(duckdb_data_chunk chunk) final;
  Result<void> End() final;

 protected:
  virtual void BeginText() {}
  virtual void WriteRow(const std::vector<ColumnView>& columns, std::uint64_t row) = 0;
  virtual void EndText() {}

  std::vector<std::string> names_;
  std::vector<ValueType> types_;
  std::string buffer_;

 private:
  Result<void> Flush(std::size_t if_larger_than);

  const DuckDb& api_;
  Output output_;
};

// Writers that other files define.
std::unique_ptr<FormatWriter> MakeTableWriter(const DuckDb& api, int width, std::string_view sql,
                                              Output output);
std::unique_ptr<FormatWriter> MakeCsvWriter(const DuckDb& api, Output output);
std::unique_ptr<FormatWriter> MakeJsonWriter(const DuckDb& api, Format format, Output output);
std::unique_ptr<FormatWriter> MakeRowsWriter(const DuckDb& api, Output output);
std::unique_ptr<FormatWriter> MakeFrameWriter(const DuckDb& api, Output output);
std::unique_ptr<FormatWriter> MakeMarkdownWriter(const DuckDb& api, Output output);
std::unique_ptr<FormatWriter> MakeArrowWriter(const DuckDb& api, Output output);
std::unique_ptr<FormatWriter> MakeParquetWriter(Engine& engine, Output output);

}  // namespace probing::query
