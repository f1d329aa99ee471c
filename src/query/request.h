// A query and its answer, as the rest of probingd sees them. Nothing of DuckDB is in here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "query/limits.h"
#include "query/sql_error.h"
#include "table/rows.h"
#include "table/source.h"

namespace probing::query {

//   table     for people: fits the width of a terminal, numbers to the right, NULL as NULL, line
//             ends and control characters as escapes so that a row is a line
//   csv       RFC 4180; NULL is an empty field, an empty string is ""
//   json      an array of objects; jsonl: one object on each line. int64 with all digits; NaN and the
//             infinities are the strings "NaN", "Infinity", "-Infinity"; bytes as \xAB escapes
//   rows      {columns: [{name, type}], rows: [[…]]}, values as in json: for programs
//   markdown  a table for documents and chats
//   arrow     an Arrow IPC stream; parquet: a Parquet file
//   frame     what table::Rows::Decode() reads: for the probingd of other hosts (gathered_rows.h)
enum class Format : std::uint8_t { kTable, kCsv, kJson, kJsonl, kMarkdown, kArrow, kParquet, kRows, kFrame };

// An unknown name is a usage error that lists the known ones.
Result<Format> ParseFormat(std::string_view name);
const char* ContentType(Format format);

struct FormatOptions {
  Format format = Format::kTable;
  int width = 0;  // of the terminal, for kTable; 0: as wide as the values
};

// Where the bytes of an answer go. An error ends the query (the caller has gone away).
using Output = std::function<Result<void>(std::string_view)>;

// Makes the rows of a live table that the worker cannot produce itself, because it takes a
// connection to the probe or probingd's own state. `target` is nullptr for tables about no target;
// `columns` are indexes into table.columns. Called on the thread that runs the query.
using Provider = std::function<Result<table::Rows>(const table::Table& table, const table::Target* target,
                                                   const std::vector<std::size_t>& columns)>;

// Rows of a table that a query needs of other hosts.
struct GatherRequest {
  struct Column {
    std::string name;  // as SQL sees it: pid, rank and host are among them when the query needs them
    table::Type type = table::Type::kInt64;
  };
  std::string table;
  std::vector<Column> columns;  // none: how many rows there are is all that matters
  table::TimeRange time;        // rows outside of it need not come
  bool is_stored = true;        // otherwise its rows are made when they are asked for
  bool is_rehearsal = false;    // how much it would be is all that matters: no rows are brought
};

// Brings them, one text for each host that has answered (gathered_rows.h); they have been checked. An error
// ends the query; hosts that fail are the business of whoever gathers. Called on the thread that runs the
// query.
using Gatherer = std::function<Result<std::vector<std::string>>(const GatherRequest& request)>;

// Tells a query that nobody waits for its answer any more. Thread-safe.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const { return cancelled_.load(); }
  int fd();  // readable from then on; made for the first who asks, since few have to wait

 private:
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  ScopedFd event_;
};

struct QueryRequest {
  std::string sql;
  FormatOptions format;
  Limits limits;
  std::vector<table::Target> targets;
  std::optional<table::HistoryScope> history;  // also rows that are in files only
  Provider provider;
  Gatherer gatherer;  // null: `global` is this host
  // Of an incident: all its rows, also of live tables, come from rings and the provider, and this is now().
  std::optional<std::int64_t> recorded_ns;
  std::shared_ptr<Cancellation> cancellation;  // shared with whoever may cancel; null when nobody may
};

struct QueryAnswer {
  std::optional<SqlError> error;  // then `body` is a part of the answer, or nothing
  std::string body;               // unless an Output took it
  std::int64_t rows = 0;
  std::vector<std::string> warnings;
};

}  // namespace probing::query
