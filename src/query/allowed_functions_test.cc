#include "query/allowed_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "query/sample_test.h"

namespace probing::query {
namespace {

using Names = std::set<std::string>;

// They read files, change the engine, show what others do, or run SQL of their own. Somebody has looked at
// each: a function of a new DuckDB is put here or into the list of those that are allowed.
const Names kRefusedTableFunctions{
    "arrow_scan",
    "arrow_scan_dumb",
    "check_peg_parser",
    "checkpoint",
    "disable_logging",
    "disable_peg_parser",
    "disable_profiling",
    "duckdb_approx_database_count",
    "duckdb_connection_count",
    "duckdb_external_file_cache",
    "duckdb_log_contexts",
    "duckdb_logs",
    "duckdb_logs_parsed",
    "duckdb_prepared_statements",
    "duckdb_profiling_settings",
    "duckdb_secret_types",
    "duckdb_secrets",
    "duckdb_table_sample",
    "duckdb_temporary_files",
    "enable_logging",
    "enable_peg_parser",
    "enable_profiling",
    "force_checkpoint",
    "glob",
    "histogram",
    "histogram_values",
    "json_execute_serialized_sql",
    "parquet_bloom_probe",
    "parquet_file_metadata",
    "parquet_full_metadata",
    "parquet_kv_metadata",
    "parquet_metadata",
    "parquet_scan",
    "parquet_schema",
    "pragma_metadata_info",
    "pragma_storage_info",
    "probing_result",
    "probing_scan",
    "query",
    "query_table",
    "read_blob",
    "read_csv",
    "read_csv_auto",
    "read_duckdb",
    "read_json",
    "read_json_auto",
    "read_json_objects",
    "read_json_objects_auto",
    "read_ndjson",
    "read_ndjson_auto",
    "read_ndjson_objects",
    "read_parquet",
    "read_text",
    "seq_scan",
    "sniff_csv",
    "sql_auto_complete",
    "truncate_duckdb_logs",
    "which_secret",
};

// They are not the same at every call, and that is all.
const Names kHarmlessVolatile{"current_connection_id",
                              "current_query",
                              "current_query_id",
                              "current_transaction_id",
                              "currval",
                              "error",
                              "gen_random_uuid",
                              "random",
                              "stats",
                              "uuid",
                              "uuidv4",
                              "uuidv7"};

Names Listed(std::string_view sql) {
  const TextResult result = RunSample(sql);
  EXPECT_FALSE(result.error) << result.error->message;
  return {result.rows.begin(), result.rows.end()};
}

bool IsRefused(std::string_view sql) {
  const TextResult result = RunSample(sql);
  return result.error && result.error->code == Code::kPermission &&
         result.error->message.find("is not allowed") != std::string::npos;
}

TEST(AllowedFunctions, EveryTableFunctionOfThisDuckDbWasJudged) {
  const Names all = Listed(
      "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('table', "
      "'table_macro')");
  const Names allowed(AllowedTableFunctions().begin(), AllowedTableFunctions().end());
  ASSERT_GT(all.size(), 60U);
  for (const std::string& name : all) {
    EXPECT_NE(allowed.contains(name), kRefusedTableFunctions.contains(name))
        << name << ": put it into kTableFunctions of allowed_functions.cc if it only makes rows, else here";
    EXPECT_EQ(IsRefused("SELECT * FROM \"" + name + "\"()"), !allowed.contains(name)) << name;
  }
}

TEST(AllowedFunctions, EveryScalarFunctionThatDoesMoreThanComputeWasJudged) {
  const Names all = Listed(
      "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate') "
      "AND "
      "(has_side_effects OR stability = 'VOLATILE')");
  const Names refused(RefusedScalarFunctions().begin(), RefusedScalarFunctions().end());
  ASSERT_GT(all.size(), 10U);
  for (const std::string& name : all)
    EXPECT_NE(refused.contains(name), kHarmlessVolatile.contains(name))
        << name << " is new: what does it do?";
  for (const std::string& name : refused) EXPECT_TRUE(IsRefused("SELECT " + name + "('x')")) << name;
}

// Macros are expanded after the check.
TEST(AllowedFunctions, NoMacroOfDuckDbCallsWhatIsRefused) {
  std::string calls;
  for (const std::string& name : kRefusedTableFunctions) {
    if (name != "query") calls += (calls.empty() ? "" : "|") + name;
  }
  for (const std::string_view name : RefusedScalarFunctions()) {
    if (name != "query") calls += "|" + std::string(name);
  }
  const Names suspicious = Listed(
      "SELECT function_name FROM duckdb_functions() WHERE function_type IN ('macro', 'table_macro') AND "
      "regexp_matches(macro_definition, '\\b(" +
      calls + ")\\s*\\(')");
  const Names refused(RefusedScalarFunctions().begin(), RefusedScalarFunctions().end());
  for (const std::string& name : suspicious)
    EXPECT_TRUE(refused.contains(name) || kRefusedTableFunctions.contains(name)) << name;
}

TEST(AllowedFunctions, WhereverTheyAreCalled) {
  for (const char* sql : {
           "SELECT * FROM enable_profiling(save_location='/tmp/x')",
           "SELECT * FROM \"Enable_Profiling\"()",
           "FROM enable_logging()",
           "SELECT * FROM main.enable_logging()",
           "SELECT * FROM system.main.enable_logging()",
           "SELECT 1 UNION SELECT * FROM enable_logging()",
           "WITH x AS (SELECT * FROM checkpoint()) SELECT * FROM x",
           "WITH RECURSIVE x AS (SELECT 1 AS a UNION ALL SELECT 2 FROM x, checkpoint()) SELECT * FROM x",
           "SELECT (SELECT count(*) FROM glob('*'))",
           "SELECT 1 WHERE 1 IN (FROM checkpoint())",
           "SELECT * FROM range(3) t(i), LATERAL (SELECT * FROM checkpoint())",
           "SELECT * FROM range(3) POSITIONAL JOIN checkpoint()",
           "SELECT 1 ORDER BY (SELECT count(*) FROM checkpoint())",
           "SELECT 1 LIMIT (SELECT count(*) FROM checkpoint())",
           "DESCRIBE SELECT * FROM enable_logging()",
           "SUMMARIZE SELECT * FROM enable_logging()",
           "SELECT * FROM (DESCRIBE SELECT * FROM enable_logging())",
           "SELECT * FROM (PIVOT (FROM checkpoint()) ON x IN (1) USING sum(y))",
           "VALUES ((SELECT count(*) FROM checkpoint()))",
           "EXPLAIN SELECT * FROM enable_logging()",
           "EXPLAIN ANALYZE SELECT * FROM enable_logging()",
           "EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM enable_logging()",
           "-- x\nEXPLAIN ANALYZE /* y */ SELECT * FROM enable_logging()",
           "SELECT write_log('x')",
           "SELECT [write_log(i) FOR i IN [1, 2]]",
           "SELECT list_transform([1], x -> setseed(0.5))",
           "SELECT ('x').write_log()",
           "SELECT sum(1) FILTER (WHERE setseed(0.1) IS NULL)",
           "SELECT json_serialize_plan('SELECT * FROM enable_logging()')",
           "SELECT * FROM query('SELECT * FROM enable_logging()')",
           "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
           "SELECT * FROM probing_scan('python.gc', true)",
           // What a reader that does not see comments as DuckDB does takes for something else.
           "EXPLAIN (FORMAT /* ) SELECT ' */ json) SELECT * FROM enable_logging() --'",
           "EXPLAIN ANALYZE /* /* */ SELECT 1 -- */ SELECT * FROM enable_logging()",
           "/* /* */ EXPLAIN ANALYZE SELECT 1 -- */ EXPLAIN ANALYZE SELECT * FROM enable_logging()",
           "EXPLAIN ANALYZE --\rSELECT * FROM enable_logging() /*\nSELECT 1 --*/",
       })
    EXPECT_TRUE(RunSample(sql).error && RunSample(sql).error->code == Code::kPermission)
        << sql << "\n"
        << (RunSample(sql).error ? RunSample(sql).error->message : "was run");
}

TEST(AllowedFunctions, WhatOnlyComputesIsAllowed) {
  for (const char* sql : {"SELECT count(*) FROM range(3)",
                          "FROM generate_series(1, 3)",
                          "SELECT unnest([1, 2])",
                          "SELECT * FROM unnest([1, 2])",
                          "SELECT * FROM json_each('{\"a\": 1}')",
                          "SELECT random() < 2",
                          "SELECT count(*) FROM duckdb_functions()",
                          "SELECT count(*) FROM information_schema.tables",
                          "EXPLAIN SELECT 1",
                          "EXPLAIN ANALYZE SELECT 1",
                          "EXPLAIN (FORMAT json) SELECT 1",
                          "EXPLAIN (SELECT 1)",
                          "-- a comment\n/* and another */ EXPLAIN SELECT 1",
                          "SHOW TABLES",
                          "DESCRIBE python.gc",
                          "SUMMARIZE SELECT 1 AS x",
                          "SELECT row_number() OVER () FROM range(2)",
                          "SHOW ALL TABLES",
                          "PRAGMA table_info('python.gc')",
                          "PRAGMA version",
                          "SELECT * FROM (PIVOT (SELECT 1 AS a, 2 AS b) ON a IN (1) USING sum(b))"}) {
    const TextResult result = RunSample(sql);
    EXPECT_FALSE(result.error) << sql << ": " << (result.error ? result.error->message : "");
  }
}

TEST(AllowedFunctions, RefusedOnesChangeNothing) {
  (void)RunSample("CALL enable_profiling(save_location='/nonexistent/x')");
  (void)RunSample("PRAGMA enable_profiling");
  (void)RunSample("SELECT * FROM enable_peg_parser()");
  (void)RunSample("SELECT * FROM enable_profiling(save_location='/nonexistent/x')");
  const TextResult result = RunSample("SELECT 1");
  ASSERT_FALSE(result.error) << result.error->message;
  EXPECT_EQ(
      RunSample("SELECT coalesce(value, '') FROM duckdb_settings() WHERE name = 'enable_profiling'").rows,
      std::vector<std::string>{"(empty)"});
}

TEST(EngineErrors, AreTheUsersMistakesOrFaultsOfTheEngine) {
  for (const char* mistake :
       {"Parser Error: syntax error", "Binder Error: x", "Catalog Error: x", "Conversion Error: x",
        "Out of Range Error: x", "Invalid Input Error: INTERNAL Error"}) {
    const SqlError error = ParseEngineError(mistake, "");
    const bool is_of_text = error.message.starts_with("Parser") || error.message.starts_with("Binder") ||
                            error.message.starts_with("Catalog");
    EXPECT_EQ(error.code, is_of_text ? Code::kUsage : Code::kMistake) << mistake;
    EXPECT_FALSE(error.is_engine_fault) << mistake;
  }
  for (const char* fault :
       {"INTERNAL Error: Attempted to access index 1 within vector of size 1", "FATAL Error: x",
        "TransactionContext Error: Failed: database has been invalidated because of a previous fatal "
        "error"}) {
    const SqlError error = ParseEngineError(fault, "");
    EXPECT_EQ(error.code, Code::kFailed) << fault;
    EXPECT_TRUE(error.is_engine_fault) << fault;
  }
  for (const char* sql : {"SELEC 1", "SELECT nope", "SELECT * FROM nope"})
    EXPECT_EQ(RunSample(sql).error->code, Code::kUsage) << sql;
  for (const char* sql : {"SELECT 'x'::INT", "SELECT 1 / 'a'"})
    EXPECT_EQ(RunSample(sql).error->code, Code::kMistake) << sql;
}

}  // namespace
}  // namespace probing::query
