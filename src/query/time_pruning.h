// From the conditions of a query (time_range.h) to times, for the scans of its tables.
#pragma once

#include <map>
#include <string>

#include "query/duckdb_api.h"
#include "query/scan_function.h"
#include "table/source.h"

namespace probing::query {

// Whether there is so much to read that it is worth a look at the query (a millisecond).
bool IsWorthPruning(const Scope& scope, std::string_view sql);

// By table. REQUIRES: the query was prepared in this scope, and its transaction has begun, so that
// now() is what it will be.
std::map<std::string, table::TimeRange, std::less<>> FindTimeRanges(const DuckDb& api,
                                                                    duckdb_connection connection,
                                                                    const ScanCatalog& catalog,
                                                                    const std::string& sql);

}  // namespace probing::query
