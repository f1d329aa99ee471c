// Columns that a stored table has in SQL only: it has an `sql` that computes them from what is stored.
#pragma once

#include <span>

#include "table/types.h"

namespace probing::table {

// After all others, in the order of the statement. Empty for tables that have none.
std::span<const Column> ComputedColumns(const Table& table);

}  // namespace probing::table
