// Every declared table. Adding a table is adding it to one of the *_tables.cc files.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "table/types.h"

namespace probing::table {

// Sorted by name. Built at the first call; thread-safe, and valid for ever.
std::span<const Table* const> AllTables();

// nullptr when there is none. Names are as declared, in lower case.
const Table* FindTable(std::string_view name);

// Columns that every table has besides its own: pid, rank, host. They are not stored with each
// row: the scan knows which target it reads.
std::span<const Column> CommonColumns();

// SQL's TIMESTAMPTZ has microseconds; a table whose first column is `timestamp` has this one too,
// last, so that nothing is lost.
inline constexpr Column kExactTime{"timestamp_ns", Type::kInt64, "ns",
                                   "timestamp exactly: nanoseconds since the epoch in UTC"};

// The columns as a query sees them: the table's own, then those of the above that it has not got.
// Views are declared in SQL and get none but the common ones, which their SQL passes on.
std::vector<Column> SqlColumns(const Table& table);

bool IsSeries(const Table& table);  // has a time for each row

// The declarations, one list for each file.
std::span<const Table> PythonTables();
std::span<const Table> TorchTables();
std::span<const Table> SystemTables();
std::span<const Table> DeviceTables();
std::span<const Table> ProfileTables();
std::span<const Table> ProfileViews();
std::span<const Table> NcclTables();
std::span<const Table> OwnTables();
std::span<const Table> Views();

}  // namespace probing::table
