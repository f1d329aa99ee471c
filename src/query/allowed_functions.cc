#include "query/allowed_functions.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"
#include "query/statement.h"
#include "table/text.h"

namespace probing::query {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostKept = 256;
constexpr std::size_t kMostBytesKept = 10'000;

// They make rows from their arguments, or list what the engine itself has: names of tables, types, settings.
constexpr std::array kTableFunctions = std::to_array<std::string_view>({
    "duckdb_columns",
    "duckdb_constraints",
    "duckdb_coordinate_systems",
    "duckdb_databases",
    "duckdb_dependencies",
    "duckdb_extensions",
    "duckdb_functions",
    "duckdb_indexes",
    "duckdb_keywords",
    "duckdb_memory",
    "duckdb_optimizers",
    "duckdb_schemas",
    "duckdb_sequences",
    "duckdb_settings",
    "duckdb_tables",
    "duckdb_types",
    "duckdb_variables",
    "duckdb_views",
    "generate_series",
    "icu_calendar_names",
    "json_each",
    "json_tree",
    "pg_timezone_names",
    "pragma_collations",
    "pragma_database_size",
    "pragma_platform",
    "pragma_show",
    "pragma_table_info",
    "pragma_user_agent",
    "pragma_version",
    "range",
    "repeat",
    "repeat_row",
    "summary",
    "test_all_types",
    "test_vector_types",
    "unnest",
});

// What they do outlasts the query, waits, reads the environment, or runs SQL that was not judged.
constexpr std::array kScalarFunctions = std::to_array<std::string_view>({
    "getenv",
    "json_serialize_plan",
    "nextval",
    "pg_sleep",
    "query",
    "setseed",
    "sleep_ms",
    "which_secret",
    "write_log",
});

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

struct Calls {
  std::vector<std::string> tables;
  std::vector<std::string> scalars;
};

// Not by recursion: the SQL is anybody's, and so is its depth.
Calls CallsIn(const Json& tree) {
  Calls calls;
  std::vector<const Json*> left{&tree};
  while (!left.empty()) {
    const Json& node = *left.back();
    left.pop_back();
    if (node.is_object()) {
      const auto name = node.find("function_name");
      if (name != node.end() && name->is_string())
        calls.scalars.push_back(LowerCase(name->get<std::string>()));
      const auto type = node.find("type");
      if (type != node.end() && *type == "TABLE_FUNCTION") {
        const std::string called = node.value("/function/function_name"_json_pointer, "");
        calls.tables.push_back(LowerCase(called));
      }
    }
    if (node.is_structured()) {
      for (const auto& child : node) left.push_back(&child);
    }
  }
  return calls;
}

SqlError Refused(const std::string& name) {
  return {
      Code::kPermission, "the function " + (name.empty() ? std::string("here") : name) + " is not allowed",
      "queries read tables and compute: what reads files, changes the engine or runs other SQL is refused"};
}

}  // namespace

std::span<const std::string_view> AllowedTableFunctions() { return kTableFunctions; }
std::span<const std::string_view> RefusedScalarFunctions() { return kScalarFunctions; }

Result<void> FunctionCheck::Prepare() {
  constexpr char kParse[] = "SELECT json_serialize_sql(?::VARCHAR)::VARCHAR";
  if (api_.prepare(connection_, kParse, &parse_.value) != DuckDBSuccess)
    return Error{
        Code::kFailed,
        "this DuckDB cannot show what a statement calls: " + std::string(api_.prepare_error(parse_.value)),
        "it needs the extension json built in"};
  ResultHandle result;
  constexpr char kMacros[] =
      "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type = 'table_macro' AND "
      "NOT "
      "internal";
  if (api_.query(connection_, kMacros, &result.value) != DuckDBSuccess)
    return Error{Code::kFailed, "this DuckDB cannot list its functions", ""};
  while (true) {
    const ChunkHandle chunk(api_.fetch_chunk(result.value));
    const idx_t count = chunk.value == nullptr ? 0 : api_.data_chunk_get_size(chunk.value);
    if (count == 0) return {};
    const auto* names =
        static_cast<table::Text*>(api_.vector_get_data(api_.data_chunk_get_vector(chunk.value, 0)));
    for (idx_t i = 0; i < count; ++i) own_macros_.emplace(names[i].view());
  }
}

std::optional<std::string> FunctionCheck::SyntaxTree(const std::string& sql) {
  if (api_.bind_varchar_length(parse_.value, 1, sql.data(), sql.size()) != DuckDBSuccess) return std::nullopt;
  ResultHandle result;
  if (api_.execute_prepared_streaming(parse_.value, &result.value) != DuckDBSuccess) return std::nullopt;
  const ChunkHandle chunk(api_.fetch_chunk(result.value));
  if (chunk.value == nullptr || api_.data_chunk_get_size(chunk.value) != 1) return std::nullopt;
  const auto* text =
      static_cast<table::Text*>(api_.vector_get_data(api_.data_chunk_get_vector(chunk.value, 0)));
  return std::string(text->view());
}

FunctionCheck::Judgement FunctionCheck::Judge(const std::string& sql) {
  if (judged_.contains(sql)) return {Verdict::kReads, std::nullopt};
  Judgement judgement = JudgeAnew(sql);
  if (judgement.verdict == Verdict::kReads && !judgement.error && sql.size() <= kMostBytesKept) {
    if (judged_.size() >= kMostKept) judged_.clear();
    judged_.insert(sql);
  }
  return judgement;
}

FunctionCheck::Judgement FunctionCheck::JudgeAnew(const std::string& sql) {
  if (IsReadingPragma(sql)) return {Verdict::kReads, std::nullopt};
  const std::string explained = ExplainedStatement(sql).statement;
  const std::optional<std::string> text = SyntaxTree(explained.empty() ? sql : explained);
  if (!text) return {};
  const Json tree = Json::parse(*text, nullptr, false);
  if (!tree.is_object() || tree.value("error", true)) return {};
  Judgement judgement{Verdict::kReads, std::nullopt};
  const Calls calls = CallsIn(tree);
  for (const std::string& name : calls.tables) {
    if (!Contains(AllowedTableFunctions(), name) && !own_macros_.contains(name))
      judgement.error = Refused(name);
  }
  for (const std::string& name : calls.scalars) {
    if (Contains(RefusedScalarFunctions(), name)) judgement.error = Refused(name);
  }
  return judgement;
}

}  // namespace probing::query
