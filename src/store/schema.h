// Our tables as tables of ClickHouse.
//
// A table `python.torch_steps` is `python_torch_steps` there. It has its own columns, each of which may be
// NULL except the time; `timestamp` in seconds, which is what every version of ClickHouse has, and
// `timestamp_ns` exactly; pid, rank, host and job; and four that name a row for ever:
//
//   probing_ring   the memory file that it was written into: HOST~PID~CREATED
//   probing_lane   the lane of the table in it
//   probing_row    its number in the lane
//   probing_batch  the insert it came with
//
// The first three are the key of a ReplacingMergeTree: a row that was inserted twice becomes one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "table/history_files.h"
#include "table/types.h"

namespace probing::store {

inline constexpr std::string_view kExactTime = "timestamp_ns";
inline constexpr std::string_view kJob = "job";

struct Column {
  std::string name;
  table::Type type = table::Type::kInt64;
  bool operator==(const Column&) const = default;
};

// What is inserted together: the time first. `table` is our name of it.
struct Shape {
  std::string table;
  std::vector<Column> columns;
  bool operator==(const Shape&) const = default;
};

// Columns of a job's own table whose names are ours there stay behind.
bool MayBeStored(std::string_view column);
// Whether it has a column of that name: then that is the one, as with pid, rank and host.
bool HasColumn(const Shape& shape, std::string_view name);

struct StoredColumn {
  std::string name;
  std::string type;
};
// All of them, in the order in which a row is written.
std::vector<StoredColumn> StoredColumns(const Shape& shape);

std::string StoredName(std::string_view table);   // "python_torch_steps"
std::string TableName(std::string_view stored);   // the other way
std::string Quoted(std::string_view name);        // `name`
std::string Literal(std::string_view text);       // 'text'
std::string RingName(const table::RingId& ring);  // "HOST~PID~CREATED"
std::string InsertStatement(std::string_view database, const Shape& shape);

struct DdlOptions {
  std::string database;
  std::string cluster;      // every server of it has a part of the rows, and a table that reads all parts
  bool replicated = false;  // the parts have copies; paths and names by the macros {shard} and {replica}
};
std::string DatabaseDdl(const DdlOptions& options);
std::vector<std::string> TableDdl(const Shape& shape, const DdlOptions& options);

// What the declarations say: all tables whose rows are stored.
std::vector<Shape> DeclaredShapes();
Shape ShapeOf(const table::Table& table);

}  // namespace probing::store
