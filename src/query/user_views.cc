#include "query/user_views.h"

#include <algorithm>

#include "base/file.h"
#include "query/handles.h"
#include "query/sql_error.h"
#include "table/text.h"

namespace probing::query {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr char kOnlyViews[] = "only CREATE VIEW and CREATE MACRO belong here";

// Tables that exist. The type of a statement says CREATE for these too, but they would be another
// truth beside the declared tables.
std::string CountTables(const DuckDb& api, duckdb_connection connection) {
  ResultHandle result;
  if (api.query(connection, "SELECT count(*)::VARCHAR FROM duckdb_tables()", &result.value) != DuckDBSuccess)
    return "";
  const ChunkHandle chunk(api.fetch_chunk(result.value));
  if (chunk.value == nullptr) return "";
  return std::string(
      static_cast<table::Text*>(api.vector_get_data(api.data_chunk_get_vector(chunk.value, 0)))->view());
}

// "" when the statement was run.
std::string RunStatement(const DuckDb& api, duckdb_connection connection, const StatementsHandle& statements,
                         idx_t index, const std::string& text) {
  PreparedHandle prepared;
  const duckdb_state state =
      api.prepare_extracted_statement(connection, statements.value, index, &prepared.value);
  if (state != DuckDBSuccess) return ParseEngineError(api.prepare_error(prepared.value), text).Text(text);
  const duckdb_statement_type type = api.prepared_statement_type(prepared.value);
  if (type != DUCKDB_STATEMENT_TYPE_CREATE && type != DUCKDB_STATEMENT_TYPE_CREATE_FUNC) return kOnlyViews;
  if (const auto begun = RunOwn(api, connection, "BEGIN TRANSACTION"); !begun.ok())
    return begun.error().message;
  const std::string tables_before = CountTables(api, connection);
  std::string problem;
  {
    ResultHandle result;
    if (api.execute_prepared_streaming(prepared.value, &result.value) != DuckDBSuccess)
      problem = ParseEngineError(api.result_error(&result.value), text).Text(text);
  }
  if (problem.empty() && CountTables(api, connection) != tables_before) problem = kOnlyViews;
  (void)RunOwn(api, connection, problem.empty() ? "COMMIT" : "ROLLBACK");
  return problem;
}

void RunFile(const DuckDb& api, duckdb_connection connection, const std::string& path,
             std::vector<std::string>& warnings) {
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) {
    warnings.push_back(text.error().message);
    return;
  }
  if (text->size() > kMaxFileBytes || text->find('\0') != std::string::npos) {
    warnings.push_back(path + ": is no SQL file");
    return;
  }
  StatementsHandle statements;
  const idx_t count = api.extract_statements(connection, text->c_str(), &statements.value);
  if (const char* problem = api.extract_statements_error(statements.value);
      count == 0 && problem != nullptr) {
    warnings.push_back(path + ": " + ParseEngineError(problem, *text).Text(*text));
  }
  for (idx_t i = 0; i < count; ++i) {
    const std::string problem = RunStatement(api, connection, statements, i, *text);
    if (!problem.empty()) warnings.push_back(path + ", statement " + std::to_string(i + 1) + ": " + problem);
  }
}

std::vector<std::string> FilesIn(const std::string& directory) {
  std::vector<std::string> paths;
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return paths;  // most users have none
  for (const std::string& name : *names) {
    if (name.ends_with(".sql") && !name.starts_with(".")) paths.push_back(directory + "/" + name);
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

bool HasUserViews(const std::string& directory) { return !FilesIn(directory).empty(); }

std::vector<std::string> LoadUserViews(const DuckDb& api, duckdb_connection connection,
                                       const std::string& directory) {
  std::vector<std::string> warnings;
  for (const std::string& path : FilesIn(directory)) RunFile(api, connection, path, warnings);
  return warnings;
}

}  // namespace probing::query
