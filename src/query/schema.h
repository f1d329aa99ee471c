// The SQL names of the declared tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "table/types.h"

namespace probing::query {

// Statements that make every declared table known: as `schema.table` for the selected targets, or as
// `global.schema.table` for all of them.
std::vector<std::string> SchemaStatements(bool everywhere);

// The same for one table that a job made, and how it is forgotten.
std::vector<std::string> CreateStatements(const table::Table& table);
std::vector<std::string> DropStatements(const table::Table& table);

// The view of one table. `metrics` is what training_logs has beyond its declared columns.
std::string ViewStatement(const table::Table& table, bool everywhere, std::string_view metrics = "");

// A metric that the job logs, as a column of training_logs.
struct Metric {
  std::string name;
  bool is_text = false;
  bool operator==(const Metric&) const = default;
};
std::string MetricColumns(std::span<const Metric> metrics);

std::string QuoteName(std::string_view name);  // "name"
std::string QuoteText(std::string_view text);  // 'text'

}  // namespace probing::query
