// Which times a query asks for, so that blocks and files without such rows need not be read.
//
// DuckDB tells a table function nothing about conditions, so the query is looked at as its parser
// sees it: `… FROM python.gc WHERE timestamp > now() - interval '5 minutes' AND …` is understood,
// in subqueries and CTEs as well. Whatever is not understood is not used: rows outside of a range
// may always be read, rows inside must be.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace probing::query {

// `timestamp >= expression` or `timestamp <= expression`; the expression is SQL without columns.
struct TimeBound {
  bool is_lower = false;
  std::string sql_json;  // the expression, as json_serialize_sql() has it
};

// One place where a query reads a table, and what must hold there.
struct TimeCondition {
  std::string table;  // as the query names it, in lower case: "python.gc"
  std::vector<TimeBound> bounds;
};

// Every table that the query names, as many times as it does. `serialized` is what
// json_serialize_sql() makes of it; nothing when that makes no sense.
std::vector<TimeCondition> FindTimeConditions(std::string_view serialized);

// A statement for json_deserialize_sql(): SELECT expression.
std::string SelectStatement(std::string_view expression_json);

}  // namespace probing::query
