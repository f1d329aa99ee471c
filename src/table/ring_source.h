// Rows of stored tables, read from the targets' rings.
#pragma once

#include <memory>
#include <vector>

#include "ring/schema.h"
#include "table/source.h"

namespace probing::table {

Type FromRing(ring::ColumnType type);
ring::ColumnType ToRing(Type type);

// What a declared table is for the ring's writer.
std::vector<ring::Column> RingColumns(const Table& table);

// REQUIRES: `table` outlives the source. Columns are matched by name; what a ring has not got, and
// what cannot be the declared type, is NULL.
std::unique_ptr<Source> MakeRingSource(const Table& table);

// probing.drops: what each table in the rings has, and what it has lost.
std::unique_ptr<Source> MakeDropsSource();

}  // namespace probing::table
