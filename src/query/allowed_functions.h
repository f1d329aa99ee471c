// Which functions of DuckDB a query may call.
//
// A SELECT can call table functions that change the engine for everybody after it (enable_profiling,
// checkpoint), read files or run SQL of their own (query, json_execute_serialized_sql): so there is a list of
// those that only make rows, and every other is refused. Of the scalar functions some few do more than
// compute; those are refused. The parser says what a statement calls, before anything of it is bound.
//
// A new DuckDB has new functions: allowed_functions_test.cc fails for each that nobody has judged.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "query/duckdb_api.h"
#include "query/handles.h"
#include "query/sql_error.h"

namespace probing::query {

std::span<const std::string_view> AllowedTableFunctions();
std::span<const std::string_view> RefusedScalarFunctions();

// Lifetime: of the connection.
class FunctionCheck {
 public:
  FunctionCheck(const DuckDb& api, duckdb_connection connection) : api_(api), connection_(connection) {}

  // After the owner's own macros were made: they may be called like tables.
  Result<void> Prepare();

  // kReads: `sql` is one SELECT (or what DuckDB takes for one: FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE), or
  // an EXPLAIN of one; then `error` says what it calls and may not.
  enum class Verdict { kReads, kOtherStatement };
  struct Judgement {
    Verdict verdict = Verdict::kOtherStatement;
    std::optional<SqlError> error;
  };
  Judgement Judge(const std::string& sql);

 private:
  Judgement JudgeAnew(const std::string& sql);
  std::optional<std::string> SyntaxTree(const std::string& sql);

  const DuckDb& api_;
  duckdb_connection connection_;
  PreparedHandle parse_;
  std::set<std::string, std::less<>> own_macros_;
  std::set<std::string> judged_;  // that were found to read only
};

}  // namespace probing::query
