#include "store/schema.h"

#include <algorithm>

#include "base/text.h"
#include "table/registry.h"

namespace probing::store {
namespace {

const char* NullableType(table::Type type) {
  switch (type) {
    case table::Type::kInt64:
    case table::Type::kTimestamp:  // not the first: exactly, too
      return "Nullable(Int64)";
    case table::Type::kDouble:
      return "Nullable(Float64)";
    case table::Type::kBool:
      return "Nullable(UInt8)";
    case table::Type::kString:
    case table::Type::kBytes:
      return "Nullable(String)";
  }
  return "";
}

std::string Escaped(std::string_view text, char quote) {
  std::string escaped(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped + quote;
}

std::string ColumnList(const Shape& shape) {
  std::string list;
  for (const auto& [name, type] : StoredColumns(shape))
    list += (list.empty() ? "\n  " : ",\n  ") + Quoted(name) + " " + type;
  return list;
}

}  // namespace

bool MayBeStored(std::string_view column) { return !LowerCase(column).starts_with("probing_"); }

bool HasColumn(const Shape& shape, std::string_view name) {
  return std::ranges::any_of(shape.columns,
                             [&](const Column& column) { return LowerCase(column.name) == name; });
}

std::vector<StoredColumn> StoredColumns(const Shape& shape) {
  std::vector<StoredColumn> columns;
  for (const Column& column : shape.columns) {
    if (columns.empty()) {
      columns.push_back({column.name, "DateTime('UTC')"});
      if (!HasColumn(shape, kExactTime)) columns.push_back({std::string(kExactTime), "Int64"});
    } else {
      columns.push_back({column.name, NullableType(column.type)});
    }
  }
  if (!HasColumn(shape, kJob)) columns.push_back({std::string(kJob), "String"});
  columns.push_back({"probing_ring", "String"});
  columns.push_back({"probing_lane", "UInt64"});
  columns.push_back({"probing_row", "UInt64"});
  columns.push_back({"probing_batch", "UInt64"});
  return columns;
}

std::string StoredName(std::string_view table) {
  std::string name(table);
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) name[dot] = '_';
  return name;
}

std::string TableName(std::string_view stored) {
  std::string name(stored);
  if (const std::size_t first = name.find('_'); first != std::string::npos) name[first] = '.';
  return name;
}

std::string Quoted(std::string_view name) { return Escaped(name, '`'); }
std::string Literal(std::string_view text) { return Escaped(text, '\''); }

std::string RingName(const table::RingId& ring) {
  return ring.host + "~" + std::to_string(ring.pid) + "~" + std::to_string(ring.created_ns);
}

std::string InsertStatement(std::string_view database, const Shape& shape) {
  std::string names;
  for (const StoredColumn& column : StoredColumns(shape))
    names += (names.empty() ? "" : ", ") + Quoted(column.name);
  return "INSERT INTO " + Quoted(database) + "." + Quoted(StoredName(shape.table)) + " (" + names +
         ") FORMAT RowBinary";
}

std::string DatabaseDdl(const DdlOptions& options) {
  return "CREATE DATABASE IF NOT EXISTS " + Quoted(options.database) +
         (options.cluster.empty() ? "" : " ON CLUSTER " + Quoted(options.cluster));
}

std::vector<std::string> TableDdl(const Shape& shape, const DdlOptions& options) {
  const std::string name = StoredName(shape.table);
  const std::string on_cluster = options.cluster.empty() ? "" : " ON CLUSTER " + Quoted(options.cluster);
  const std::string local = options.cluster.empty() ? name : name + "_local";
  const std::string time = Quoted(shape.columns.front().name);
  std::string engine = "ReplacingMergeTree";
  if (options.replicated)
    engine = "ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/" + options.database + "/" + name +
             "', '{replica}')";
  // A minute's rows of a process lie beside each other: a quarter of the space, and twice as fast to read, as
  // those of a second. The time comes first, because nearly every question is about the last of it.
  std::vector<std::string> statements{
      "CREATE TABLE IF NOT EXISTS " + Quoted(options.database) + "." + Quoted(local) + on_cluster + " (" +
      ColumnList(shape) + "\n) ENGINE = " + engine + "\nPARTITION BY toDate(" + time +
      ")\nORDER BY (toStartOfMinute(" + time + "), probing_ring, probing_lane, probing_row)"};
  if (options.cluster.empty()) return statements;
  statements.push_back("CREATE TABLE IF NOT EXISTS " + Quoted(options.database) + "." + Quoted(name) +
                       on_cluster + " (" + ColumnList(shape) + "\n) ENGINE = Distributed(" +
                       Quoted(options.cluster) + ", " + Quoted(options.database) + ", " + Quoted(local) +
                       ", cityHash64(probing_ring))");
  return statements;
}

Shape ShapeOf(const table::Table& table) {
  Shape shape{std::string(table.name), {}};
  for (const table::Column& column : table.columns) {
    if (MayBeStored(column.name)) shape.columns.push_back({std::string(column.name), column.type});
  }
  for (const table::Column& common : table::CommonColumns()) {
    if (common.name != kJob && !HasColumn(shape, common.name))
      shape.columns.push_back({std::string(common.name), common.type});
  }
  return shape;
}

std::vector<Shape> DeclaredShapes() {
  std::vector<Shape> shapes;
  for (const table::Table* table : table::AllTables()) {
    if (table->kind == table::Kind::kStored) shapes.push_back(ShapeOf(*table));
  }
  return shapes;
}

}  // namespace probing::store
