// One statement: whether it only reads, what went wrong, which tables it names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "query/duckdb_api.h"
#include "query/handles.h"
#include "query/limits.h"
#include "query/schema.h"
#include "query/sql_error.h"

namespace probing::query {

class FunctionCheck;

// Parses and prepares `sql`. Refuses anything but exactly one statement that reads (SELECT, which
// DESCRIBE, SHOW and SUMMARIZE are as well, or EXPLAIN of one) and calls functions that only compute.
std::optional<SqlError> PrepareReading(const DuckDb& api, duckdb_connection connection,
                                       FunctionCheck& functions, const std::string& sql,
                                       PreparedHandle& prepared);

// PRAGMA table_info('t') and the like, which DuckDB turns into a SELECT of its own.
bool IsReadingPragma(std::string_view sql);

// What an EXPLAIN is about; "" when it is none, or is not understood.
struct Explained {
  std::string statement;
  bool is_run = false;  // ANALYZE
};
Explained ExplainedStatement(std::string_view sql);

SqlError ResultError(const DuckDb& api, duckdb_result& result, const std::string& sql, const Limits& limits);

// Tables that the query names, with what stands before the name.
std::vector<std::string> TableNames(const DuckDb& api, duckdb_connection connection, const std::string& sql);

// Names in python.metrics, of all targets. At most a few hundred: the rest is only in that table.
std::vector<Metric> ReadMetrics(const DuckDb& api, duckdb_connection connection);

}  // namespace probing::query
