#include "query/schema.h"

#include <set>

#include "base/quote.h"
#include "base/text.h"
#include "table/registry.h"

namespace probing::query {
namespace {

std::string ScanOf(std::string_view table, bool everywhere) {
  return "probing_scan(" + QuoteText(table) + (everywhere ? ", true)" : ", false)");
}

// Replaces {metrics} and every {table}.
std::string Expand(std::string_view sql, bool everywhere, std::string_view metrics) {
  std::string expanded;
  while (true) {
    const auto open = sql.find('{');
    if (open == std::string_view::npos) return expanded.append(sql);
    const auto close = sql.find('}', open);
    const std::string_view name = sql.substr(open + 1, close - open - 1);
    expanded.append(sql.substr(0, open));
    expanded += name == "metrics" ? std::string(metrics) : ScanOf(name, everywhere);
    sql.remove_prefix(close + 1);
  }
}

std::string FullName(const table::Table& table, bool everywhere) {
  return (everywhere ? "global." : "memory.") + QuoteName(table::SchemaOf(table.name)) + "." +
         QuoteName(table::LastNameOf(table.name));
}

// A schema of this name would be ambiguous with DuckDB's catalog: scan_function.cc.
bool HasOwnSchema(const table::Table& table) { return table::SchemaOf(table.name) != "system"; }

}  // namespace

std::string QuoteName(std::string_view name) { return QuoteForSql(name, '"'); }
std::string QuoteText(std::string_view text) { return QuoteForSql(text); }

std::string ViewStatement(const table::Table& table, bool everywhere, std::string_view metrics) {
  const std::string name = FullName(table, everywhere);
  const std::string sql = !table.sql.empty() ? Expand(table.sql, everywhere, metrics)
                                             : "SELECT * FROM " + ScanOf(table.name, everywhere);
  return "CREATE OR REPLACE VIEW " + name + " AS " + sql;
}

std::vector<std::string> SchemaStatements(bool everywhere) {
  std::vector<std::string> statements;
  std::set<std::string> schemas;
  for (const table::Table* table : table::AllTables()) {
    if (everywhere || HasOwnSchema(*table)) schemas.emplace(table::SchemaOf(table->name));
  }
  for (const std::string& schema : schemas)
    statements.push_back(std::string("CREATE SCHEMA IF NOT EXISTS ") + (everywhere ? "global." : "memory.") +
                         QuoteName(schema));
  for (const table::Table* table : table::AllTables()) {
    if (everywhere || HasOwnSchema(*table)) statements.push_back(ViewStatement(*table, everywhere));
  }
  return statements;
}

std::vector<std::string> CreateStatements(const table::Table& table) {
  std::vector<std::string> statements;
  for (const bool everywhere : {true, false}) {
    if (!everywhere && !HasOwnSchema(table)) continue;
    statements.push_back(std::string("CREATE SCHEMA IF NOT EXISTS ") + (everywhere ? "global." : "memory.") +
                         QuoteName(table::SchemaOf(table.name)));
    statements.push_back(ViewStatement(table, everywhere));
  }
  return statements;
}

std::vector<std::string> DropStatements(const table::Table& table) {
  std::vector<std::string> statements{"DROP VIEW IF EXISTS " + FullName(table, true)};
  if (HasOwnSchema(table)) statements.push_back("DROP VIEW IF EXISTS " + FullName(table, false));
  return statements;
}

std::string MetricColumns(std::span<const Metric> metrics) {
  // Columns that training_logs has already; names in SQL do not differ by case.
  std::set<std::string> taken{"timestamp", "source", "epoch", "step", "loss", "pid", "rank", "host", "job"};
  std::string columns;
  for (const Metric& metric : metrics) {
    const std::string lower = LowerCase(metric.name);
    if (lower == "epoch" || lower == "step" || metric.name == "loss") continue;  // those are these columns
    std::string column = metric.name;
    for (int i = 2; !taken.insert(LowerCase(column)).second; ++i)
      column = metric.name + "_" + std::to_string(i);
    const std::string value = metric.is_text ? "coalesce(text, value::VARCHAR)" : "value";
    columns +=
        ", max(" + value + ") FILTER (WHERE name = " + QuoteText(metric.name) + ") AS " + QuoteName(column);
  }
  return columns;
}

}  // namespace probing::query
