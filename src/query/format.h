// Results as bytes: one writer for each format, working chunk by chunk in bounded memory.
//
//   table     for people: fits the width of a terminal, numbers to the right, NULL as NULL, line
//             ends and control characters as escapes so that a row is a line
//   csv       RFC 4180; NULL is an empty field, an empty string is ""
//   json      an array of objects; jsonl: one object on each line. int64 with all digits; NaN and the
//             infinities are the strings "NaN", "Infinity", "-Infinity"; bytes as \xAB escapes
//   markdown  a table for documents and chats
//   arrow     an Arrow IPC stream; parquet: a Parquet file. Nested and rare types travel as text
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "query/engine.h"
#include "query/value.h"

namespace probing::query {

enum class Format : std::uint8_t { kTable, kCsv, kJson, kJsonl, kMarkdown, kArrow, kParquet };

// An unknown name is a usage error that lists the known ones.
Result<Format> ParseFormat(std::string_view name);
const char* ContentType(Format format);

// Where the bytes go. An error ends the query (the caller has gone away).
using Output = std::function<Result<void>(std::string_view)>;

struct FormatOptions {
  Format format = Format::kTable;
  int width = 0;  // of the terminal, for kTable; 0: as wide as the values
};

class FormatWriter : public ResultSink {
 public:
  // Called once, after the last chunk of a query that succeeded.
  virtual Result<void> End() = 0;
};

// REQUIRES: `engine` outlives the writer.
std::unique_ptr<FormatWriter> MakeFormatWriter(Engine& engine, const FormatOptions& options, Output output);

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
std::unique_ptr<FormatWriter> MakeTableWriter(const DuckDb& api, int width, Output output);
std::unique_ptr<FormatWriter> MakeCsvWriter(const DuckDb& api, Output output);
std::unique_ptr<FormatWriter> MakeJsonWriter(const DuckDb& api, Format format, Output output);
std::unique_ptr<FormatWriter> MakeMarkdownWriter(const DuckDb& api, Output output);

}  // namespace probing::query
