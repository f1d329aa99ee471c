// Owners of DuckDB's handles: each is destroyed at the end of its scope.
#pragma once

#include "query/duckdb_api.h"

namespace probing::query {

struct ResultHandle {
  duckdb_result value{};
  ResultHandle() = default;
  ResultHandle(const ResultHandle&) = delete;
  ResultHandle& operator=(const ResultHandle&) = delete;
  ~ResultHandle() { LoadedDuckDb().destroy_result(&value); }
};

struct PreparedHandle {
  duckdb_prepared_statement value = nullptr;
  PreparedHandle() = default;
  PreparedHandle(const PreparedHandle&) = delete;
  PreparedHandle& operator=(const PreparedHandle&) = delete;
  ~PreparedHandle() { LoadedDuckDb().destroy_prepare(&value); }
};

struct StatementsHandle {
  duckdb_extracted_statements value = nullptr;
  StatementsHandle() = default;
  StatementsHandle(const StatementsHandle&) = delete;
  StatementsHandle& operator=(const StatementsHandle&) = delete;
  ~StatementsHandle() { LoadedDuckDb().destroy_extracted(&value); }
};

struct ChunkHandle {
  duckdb_data_chunk value = nullptr;
  explicit ChunkHandle(duckdb_data_chunk chunk) : value(chunk) {}
  ChunkHandle(const ChunkHandle&) = delete;
  ChunkHandle& operator=(const ChunkHandle&) = delete;
  ~ChunkHandle() { LoadedDuckDb().destroy_data_chunk(&value); }
};

// A statement of our own, whose rows nobody wants.
inline Result<void> RunOwn(const DuckDb& api, duckdb_connection connection, const std::string& sql) {
  ResultHandle result;
  if (api.query(connection, sql.c_str(), &result.value) == DuckDBSuccess) return {};
  const char* message = api.result_error(&result.value);
  return Error{Code::kFailed, "DuckDB refused " + sql + ": " + (message == nullptr ? "no reason" : message),
               ""};
}

}  // namespace probing::query
