#include "cluster/gather_sql.h"

#include "query/gathered_rows.h"
#include "query/schema.h"

namespace probing::cluster {
namespace {

using query::GatherRequest;
using query::QuoteName;
using table::Type;

std::string TableName(const GatherRequest& request) {
  const auto schema = table::SchemaOf(request.table);
  const std::string name = QuoteName(table::LastNameOf(request.table));
  // Tables of `system` are found by replacement only (query/scan_function.cc).
  return schema == "main" ? name : (schema == "system" ? "system" : QuoteName(schema)) + "." + name;
}

// `timestamp` has microseconds, and so have the bounds, which come from SQL.
std::string Condition(const table::TimeRange& time) {
  const auto bound = [](const char* comparison, std::int64_t ns) {
    return "timestamp " + std::string(comparison) + " CAST(make_timestamp(" + std::to_string(ns / 1000) +
           ") AS TIMESTAMPTZ)";
  };
  const table::TimeRange all;
  std::string text;
  if (time.from_ns != all.from_ns) text = " WHERE " + bound(">=", time.from_ns);
  if (time.to_ns != all.to_ns) text += (text.empty() ? " WHERE " : " AND ") + bound("<=", time.to_ns);
  return text;
}

std::string Selected(const GatherRequest::Column& column) {
  if (column.type != Type::kTimestamp) return QuoteName(column.name);
  return column.name == "timestamp" ? "timestamp_ns" : "epoch_us(" + QuoteName(column.name) + ") * 1000";
}

}  // namespace

std::string CountSql(const GatherRequest& request) {
  std::string texts;
  for (const GatherRequest::Column& column : request.columns) {
    const bool is_text = column.type == Type::kString;
    if (is_text || column.type == Type::kBytes)
      texts += std::string(" + coalesce(sum(") + (is_text ? "strlen(" : "octet_length(") +
               QuoteName(column.name) + ")), 0)";
  }
  return "SELECT count(*), (SELECT CAST(coalesce(sum(dropped), 0) AS BIGINT) FROM probing.drops WHERE "
         "table_name = " +
         query::QuoteText(request.table) + "), CAST(0" + texts + " AS BIGINT) FROM " + TableName(request) +
         Condition(request.time);
}

std::string RowsSql(const GatherRequest& request) {
  std::string columns;
  for (const GatherRequest::Column& column : request.columns)
    columns += (columns.empty() ? "" : ", ") + Selected(column);
  return "SELECT " + (columns.empty() ? "true" : columns) + " FROM " + TableName(request) +
         Condition(request.time);
}

std::vector<Type> TypesOf(const GatherRequest& request) {
  std::vector<Type> types;
  for (const GatherRequest::Column& column : request.columns) types.push_back(column.type);
  return types;
}

std::int64_t RowBytes(const GatherRequest& request) {
  std::int64_t bytes = 0;
  for (const Type type : query::TravellingTypes(TypesOf(request))) bytes += type == Type::kBool ? 2 : 9;
  return bytes;
}

}  // namespace probing::cluster
