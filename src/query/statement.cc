#include "query/statement.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/text.h"
#include "query/allowed_functions.h"
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

// Takes off space, and comments, which DuckDB takes anywhere. A comment that could end elsewhere for DuckDB
// (one in another, a carriage return) stays: then the statement is not understood, and refused.
void SkipSpace(std::string_view& sql) {
  while (!sql.empty()) {
    if (std::isspace(static_cast<unsigned char>(sql[0])) != 0) {
      sql.remove_prefix(1);
    } else if (sql.starts_with("--")) {
      const std::size_t end = std::min(sql.find('\n'), sql.size());
      if (sql.substr(0, end).find('\r') != std::string_view::npos) return;
      sql.remove_prefix(end);
    } else if (sql.starts_with("/*")) {
      const std::size_t end = sql.find("*/", 2);
      if (end == std::string_view::npos || sql.substr(2, end - 2).find("/*") != std::string_view::npos)
        return;
      sql.remove_prefix(end + 2);
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
                                       FunctionCheck& functions, const std::string& sql,
                                       PreparedHandle& prepared) {
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
  // Before anything is bound: some functions act already then.
  FunctionCheck::Judgement judgement = functions.Judge(sql);
  if (judgement.error) return std::move(judgement.error);
  std::string_view first = sql;
  if (judgement.verdict != FunctionCheck::Verdict::kReads && TakeWord(first, "explain"))
    return SqlError{Code::kPermission, "EXPLAIN of anything but one SELECT is not allowed", kReadingOnly};
  if (api.prepare_extracted_statement(connection, statements.value, 0, &prepared.value) != DuckDBSuccess)
    return ParseEngineError(api.prepare_error(prepared.value), sql);
  const duckdb_statement_type type = api.prepared_statement_type(prepared.value);
  const bool reads = type == DUCKDB_STATEMENT_TYPE_SELECT || type == DUCKDB_STATEMENT_TYPE_EXPLAIN;
  if (!reads || judgement.verdict != FunctionCheck::Verdict::kReads) {
    return SqlError{Code::kPermission, std::string(StatementName(type)) + " is not allowed", kReadingOnly};
  }
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

bool IsReadingPragma(std::string_view sql) {
  if (!TakeWord(sql, "pragma")) return false;
  const bool is_known = TakeWord(sql, "table_info") || TakeWord(sql, "show_tables") ||
                        TakeWord(sql, "version") || TakeWord(sql, "database_list") || TakeWord(sql, "show");
  // An argument is a name; anything more is not understood here.
  constexpr std::string_view kRest =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.'() \n\t;";
  return is_known && sql.find_first_not_of(kRest) == std::string_view::npos;
}

Explained ExplainedStatement(std::string_view sql) {
  Explained explained;
  if (!TakeWord(sql, "explain")) return explained;
  while (true) {
    if (TakeWord(sql, "analyze"))
      explained.is_run = true;
    else if (!TakeWord(sql, "verbose"))
      break;
  }
  std::string_view options = sql;
  SkipSpace(options);
  // (FORMAT json), (ANALYZE): otherwise the brackets belong to what is explained.
  if (options.starts_with('(')) {
    const std::string words = LowerCase(options.substr(1, std::min(options.find(')'), options.size()) - 1));
    std::string_view first = words;
    const bool are_options =
        TakeWord(first, "analyze") || TakeWord(first, "format") || TakeWord(first, "verbose");
    const bool are_plain = words.find_first_not_of("abcdefghijklmnopqrstuvwxyz_, \t\n") == std::string::npos;
    if (are_options && !are_plain) return explained;  // a bracket in a comment or a text would not be the end
    if (are_options) {
      explained.is_run = explained.is_run || words.find("analyze") != std::string::npos;
      sql = options.substr(std::min(words.size() + 2, options.size()));
    }
  }
  explained.statement = std::string(sql);
  return explained;
}

}  // namespace probing::query
