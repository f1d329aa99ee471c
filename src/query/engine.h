// Engine: SQL over the declared tables, in a locked-down DuckDB.
//
// One statement that only reads, judged by the parser and run in a read-only transaction; no file,
// no network, no setting; bounded time, memory and rows. It runs in a process of its own (worker.h),
// because a value of a gigabyte or a bug in the engine can still end that process.
// Not thread-safe: one query at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "query/allowed_functions.h"
#include "query/duckdb_api.h"
#include "query/interrupt_timer.h"
#include "query/kept_statements.h"
#include "query/limits.h"
#include "query/scan_function.h"
#include "query/schema.h"
#include "query/sql_error.h"
#include "query/stored_source.h"
#include "query/task_helper.h"
#include "table/source.h"
#include "table/user_table.h"

namespace probing::query {

struct EngineOptions {
  std::int64_t memory_bytes = Limits{}.memory_bytes;
  // Live tables that this process can produce itself, and replacements for stored ones.
  std::vector<std::shared_ptr<table::Source>> sources;
  std::string view_directory;  // *.sql with the user's own views and macros; "" for none
};

// So that a result can be written as Parquet (format_parquet.cc).
Result<void> RegisterResultFunction(const DuckDb& api, duckdb_connection connection);

// Receives a result, chunk by chunk. An error it returns ends the query.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  virtual Result<void> Begin(duckdb_result& result) = 0;
  virtual Result<void> Write(duckdb_data_chunk chunk) = 0;
};

// What a query may see.
struct Sight {
  std::vector<table::Target> targets;
  std::optional<table::HistoryScope> history;  // without one: rings only
  Gatherer gather;                             // without one: this host only
  std::optional<std::int64_t> recorded_ns;     // QueryRequest::recorded_ns
};

struct Outcome {
  std::optional<SqlError> error;
  std::int64_t rows = 0;
  std::vector<std::string> warnings;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Open(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Outcome Execute(std::string_view sql, Sight sight, const Limits& limits, ResultSink& sink);
  Outcome Execute(std::string_view sql, std::vector<table::Target> targets, const Limits& limits,
                  ResultSink& sink) {
    return Execute(sql, Sight{std::move(targets), std::nullopt, nullptr, std::nullopt}, limits, sink);
  }

  // Broken files of the view directory, for every answer.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Cannot be used any more: a transaction did not end. Open another one.
  bool is_broken() const { return is_broken_; }

  // Position of `target` in the list that Execute() was given. REQUIRES: during Execute().
  std::int64_t IndexOf(const table::Target& target) const {
    return &target - catalog_.scope()->targets.data();
  }

  // A file in memory, the only one that DuckDB may write: for the Parquet format.
  const ScopedFd& writable_file() const { return writable_file_; }
  std::string writable_path() const { return "/proc/self/fd/" + std::to_string(writable_file_.get()); }

  const DuckDb& api() const { return api_; }
  duckdb_database database() const { return database_; }

 private:
  Engine(const DuckDb& api, EngineOptions options);
  Result<void> Prepare();  // settings, function, tables, the user's views, lock
  Result<void> CreateTables();
  Result<void> CreateViews(bool everywhere);
  void EnsureGlobal(std::string_view sql);
  void SetNow(std::optional<std::int64_t> now_ns);
  std::optional<SqlError> Run(std::string_view sql, const Limits& limits, ResultSink& sink,
                              std::int64_t& rows);
  std::optional<SqlError> RunStatement(const std::string& sql, const Limits& limits, ResultSink& sink,
                                       std::int64_t& rows);
  std::optional<SqlError> Fetch(const PreparedHandle& prepared, const std::string& sql, const Limits& limits,
                                ResultSink& sink, std::int64_t& rows);
  void Rehearse(const std::string& sql);
  std::optional<SqlError> CheckSystemTables(const std::string& sql);
  void RefreshUserTables();
  void RefreshMetrics();

  const DuckDb& api_;
  EngineOptions options_;
  HistoryReader history_;
  ScanCatalog catalog_;
  duckdb_database database_ = nullptr;
  duckdb_connection connection_ = nullptr;
  std::optional<TaskHelper> helper_;        // of the database
  std::optional<InterruptTimer> timer_;     // of the connection
  std::optional<FunctionCheck> functions_;  // of the connection
  KeptStatements kept_;                     // of the connection
  std::vector<std::string> warnings_;
  ScopedFd writable_file_;
  bool has_global_ = false;
  std::optional<std::int64_t> now_ns_;  // what now() is; nothing: the present
  bool in_transaction_ = false;
  bool is_broken_ = false;
  std::vector<std::shared_ptr<table::UserTable>> user_tables_;  // shared with their sources
  std::vector<Metric> metrics_;                                 // that training_logs has columns for
};

}  // namespace probing::query
