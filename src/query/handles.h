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

// Opens a database in memory, for so many threads. DuckDB starts none of them: they are those that call it
// (task_helper.h).
inline Result<void> OpenDatabase(const DuckDb& api, std::int64_t memory_bytes, int threads,
                                 duckdb_database* database) {
  duckdb_config config = nullptr;
  if (api.create_config(&config) != DuckDBSuccess) return Error{Code::kFailed, "cannot configure DuckDB", ""};
  api.set_config(config, "memory_limit", (std::to_string(memory_bytes >> 10) + "KiB").c_str());
  api.set_config(config, "threads", std::to_string(threads).c_str());
  api.set_config(config, "external_threads", std::to_string(threads).c_str());
  char* problem = nullptr;
  const duckdb_state state = api.open_ext(nullptr, database, config, &problem);
  api.destroy_config(&config);
  if (state == DuckDBSuccess) return {};
  Error error{Code::kFailed, "cannot open DuckDB: " + std::string(problem == nullptr ? "" : problem), ""};
  api.free(problem);
  return error;
}

// A statement of our own, whose rows nobody wants.
inline Result<void> RunOwn(const DuckDb& api, duckdb_connection connection, const std::string& sql) {
  ResultHandle result;
  if (api.query(connection, sql.c_str(), &result.value) == DuckDBSuccess) return {};
  const char* message = api.result_error(&result.value);
  return Error{Code::kFailed, "DuckDB refused " + sql + ": " + (message == nullptr ? "no reason" : message),
               ""};
}

}  // namespace probing::query
