// What a table is: a name, columns, where its rows come from. Declared once as data; ring schema,
// SQL schema, `probing.tables`, `probing.columns` and docs/reference/tables.md all follow from it.
//
// Everything here is constant data that is safe to link into a target: no allocation, no throw.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace probing::table {

// Exact in every place a value passes: int64 stays int64, NULL stays NULL. Timestamps are
// nanoseconds since the epoch in UTC.
enum class Type : std::uint8_t { kInt64, kDouble, kBool, kString, kBytes, kTimestamp };

enum class Kind : std::uint8_t {
  kStored,  // rows are written into a ring when they happen and read from there
  kLive,    // rows are made when somebody asks
  kView,    // SQL over other tables
};

// Who makes the rows.
enum class Origin : std::uint8_t {
  kProbe,    // code inside the target
  kOutside,  // probingd, reading the target from outside
  kDaemon,   // probingd, about itself
};

// What the rows of a live table are about. Rows about the host have no pid and no rank.
enum class About : std::uint8_t { kTargets, kHost };

struct Column {
  std::string_view name;
  Type type;
  std::string_view unit;  // "" where there is none
  std::string_view doc;   // one line
};

struct Table {
  std::string_view name;  // "python.torch_trace"; "memory_usage" has no schema
  Kind kind;
  Origin origin;
  std::string_view doc;             // one line
  std::span<const Column> columns;  // without the common ones, unless the table has them itself
  // Of a view. "{python.x}" stands for the scan of that table, in the scope of the view itself.
  std::string_view sql = "";
  About about = About::kTargets;
};

inline std::string_view SchemaOf(std::string_view name) {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view("main") : name.substr(0, dot);
}
inline std::string_view LastNameOf(std::string_view name) {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

const char* TypeName(Type type);        // "int64"
const char* SqlTypeName(Type type);     // "BIGINT"
const char* KindName(Kind kind);        // "stored"
const char* OriginName(Origin origin);  // "probe"

}  // namespace probing::table
