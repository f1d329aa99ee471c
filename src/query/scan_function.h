// The table function probing_scan(table, everywhere): how DuckDB reads our tables.
//
// Each declared table is a view over it. Projection is pushed down to the source; parts of a scan
// are read by as many threads as the engine has.
#pragma once

#include "base/result.h"
#include "query/duckdb_api.h"
#include "query/scan_catalog.h"

namespace probing::query {

// As what DuckDB sees our values.
duckdb_type EngineType(table::Type type);

// REQUIRES: `catalog` outlives the database.
Result<void> RegisterScan(const DuckDb& api, duckdb_database database, duckdb_connection connection,
                          ScanCatalog& catalog);

}  // namespace probing::query
