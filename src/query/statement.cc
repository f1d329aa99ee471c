#include "query/statement.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/text.h"
#include "table/text.h"

namespace probing::query {
namespace {

const char* StatementName(duckdb_statement_type type) {
  switch (type) {
    case DUCKDB_STATEMENT_TYPE_INSERT:
      return "INSERT";
    case DUCKDB_STATEMENT_TYPE_UPDATE:
      return "UPDATE";
    case DUCKDB_STATEMENT_TYPE_DELETE:
      return "DELETE";
    case DUCKDB_STATEMENT_TYPE_PREPARE:
      return "PREPARE";
    case DUCKDB_STATEMENT_TYPE_CREATE:
    case DUCKDB_STATEMENT_TYPE_CREATE_FUNC:
      return "CREATE";
    case DUCKDB_STATEMENT_TYPE_EXECUTE:
      return "EXECUTE";
    case DUCKDB_STATEMENT_TYPE_ALTER:
      return "ALTER";
    case DUCKDB_STATEMENT_TYPE_TRANSACTION:
      return "a transaction";
    case DUCKDB_STATEMENT_TYPE_COPY:
      return "COPY";
    case DUCKDB_STATEMENT_TYPE_ANALYZE:
      return "ANALYZE";
    case DUCKDB_STATEMENT_TYPE_VARIABLE_SET:
    case DUCKDB_STATEMENT_TYPE_SET:
      return "SET";
    case DUCKDB_STATEMENT_TYPE_DROP:
      return "DROP";
    case DUCKDB_STATEMENT_TYPE_EXPORT:
      return "EXPORT";
    case DUCKDB_STATEMENT_TYPE_PRAGMA:
      return "PRAGMA";
    case DUCKDB_STATEMENT_TYPE_VACUUM:
      return "VACUUM";
    case DUCKDB_STATEMENT_TYPE_CALL:
      return "CALL";
    case DUCKDB_STATEMENT_TYPE_LOAD:
      return "LOAD or INSTALL";
    case DUCKDB_STATEMENT_TYPE_ATTACH:
      return "ATTACH";
    case DUCKDB_STATEMENT_TYPE_DETACH:
      return "DETACH";
    default:
      return "this statement";
  }
}

constexpr char kReadingOnly[] = "queries only read: SELECT, WITH, DESCRIBE, SHOW, SUMMARIZE and EXPLAIN";

// Takes off space, and comments, which DuckDB takes anywhere.
void SkipSpace(std::string_view& sql) {
  while (!sql.empty()) {
    if (std::isspace(static_cast<unsigned char>(sql[0])) != 0) {
      sql.remove_prefix(1);
    } else if (sql.starts_with("--")) {
      sql.remove_prefix(std::min(sql.find('\n'), sql.size()));
    } else if (sql.starts_with("/*")) {
      const std::size_t end = sql.find("*/", 2);
      sql.remove_prefix(end == std::string_view::npos ? sql.size() : end + 2);
    } else {
      return;
    }
  }
}

// Takes off the word, when it is the next one.
bool TakeWord(std::string_view& sql, std::string_view word) {
  SkipSpace(sql);
  if (sql.size() < word.size() || LowerCase(sql.substr(0, word.size())) != word) return false;
  const std::string_view rest = sql.substr(word.size());
  if (!rest.empty() && (std::isalnum(static_cast<unsigned char>(rest[0])) != 0 || rest[0] == '_'))
    return false;
  sql = rest;
  return true;
}

}  // namespace

std::optional<SqlError> PrepareReading(const DuckDb& api, duckdb_connection connection,
                                       const std::string& sql, PreparedHandle& prepared) {
  StatementsHandle statements;
  const idx_t count = api.extract_statements(connection, sql.c_str(), &statements.value);
  if (count == 0) {
    const char* problem = api.extract_statements_error(statements.value);
    if (problem != nullptr) return ParseEngineError(problem, sql);
    return SqlError{Code::kUsage, "there is no statement in the SQL", "try: SELECT * FROM probing.tables"};
  }
  if (count > 1) {
    return SqlError{Code::kUsage, "there are " + std::to_string(count) + " statements in the SQL",
                    "one query is one statement"};
  }
  if (api.prepare_extracted_statement(connection, statements.value, 0, &prepared.value) != DuckDBSuccess)
    return ParseEngineError(api.prepare_error(prepared.value), sql);
  const duckdb_statement_type type = api.prepared_statement_type(prepared.value);
  if (type != DUCKDB_STATEMENT_TYPE_SELECT && type != DUCKDB_STATEMENT_TYPE_EXPLAIN)
    return SqlError{Code::kPermission, std::string(StatementName(type)) + " is not allowed", kReadingOnly};
  if (api.nparams(prepared.value) > 0)
    return SqlError{Code::kUsage, "the SQL has parameters (? or $1), and nothing gives them values",
                    "write the values into the SQL"};
  return std::nullopt;
}

SqlError ResultError(const DuckDb& api, duckdb_result& result, const std::string& sql, const Limits& limits) {
  const char* message = api.result_error(&result);
  const std::string_view text = message == nullptr ? std::string_view("unknown error") : message;
  if (api.result_error_type(&result) == DUCKDB_ERROR_OUT_OF_MEMORY || text.starts_with("Out of Memory Error"))
    return OutOfMemoryError(limits, text);
  return ParseEngineError(text, sql);
}

std::vector<std::string> TableNames(const DuckDb& api, duckdb_connection connection, const std::string& sql) {
  std::vector<std::string> names;
  duckdb_value list = api.get_table_names(connection, sql.c_str(), true);
  if (list == nullptr) return names;
  for (idx_t i = 0; i < api.get_list_size(list); ++i) {
    duckdb_value child = api.get_list_child(list, i);
    char* text = api.get_varchar(child);
    std::string name(text == nullptr ? "" : text);
    std::erase(name, '"');
    names.push_back(LowerCase(name));
    api.free(text);
    api.destroy_value(&child);
  }
  api.destroy_value(&list);
  return names;
}

std::vector<Metric> ReadMetrics(const DuckDb& api, duckdb_connection connection) {
  std::vector<Metric> metrics;
  ResultHandle result;
  constexpr char kSql[] =
      "SELECT name, bool_or(text IS NOT NULL) FROM probing_scan('python.metrics', true)"
      " WHERE name IS NOT NULL GROUP BY name ORDER BY name LIMIT 500";
  if (api.query(connection, kSql, &result.value) != DuckDBSuccess) return metrics;
  while (true) {
    const ChunkHandle chunk(api.fetch_chunk(result.value));
    const idx_t count = chunk.value == nullptr ? 0 : api.data_chunk_get_size(chunk.value);
    if (count == 0) return metrics;
    const auto* names =
        static_cast<table::Text*>(api.vector_get_data(api.data_chunk_get_vector(chunk.value, 0)));
    const auto* texts = static_cast<bool*>(api.vector_get_data(api.data_chunk_get_vector(chunk.value, 1)));
    for (idx_t i = 0; i < count; ++i) metrics.push_back({std::string(names[i].view()), texts[i]});
  }
}

std::string ExplainedStatement(std::string_view sql) {
  if (!TakeWord(sql, "explain") || TakeWord(sql, "analyze")) return "";
  std::string_view options = sql;
  SkipSpace(options);
  // (FORMAT json), (ANALYZE): otherwise the brackets belong to what is explained.
  if (options.starts_with('(')) {
    options.remove_prefix(1);
    if (TakeWord(options, "analyze")) return "";
    if (TakeWord(options, "format"))
      sql = options.substr(std::min(options.find(')'), options.size() - 1) + 1);
  }
  return std::string(sql);
}

}  // namespace probing::query
