// The user's own views and macros: *.sql files that run when the engine opens.
#pragma once

#include <string>
#include <vector>

#include "query/duckdb_api.h"

namespace probing::query {

bool HasUserViews(const std::string& directory);

// Runs every CREATE VIEW and CREATE MACRO of `directory`/*.sql, in the order of the names. Anything
// else in a file and anything that fails is left out and reported; the rest of the file still runs.
std::vector<std::string> LoadUserViews(const DuckDb& api, duckdb_connection connection,
                                       const std::string& directory);

}  // namespace probing::query
