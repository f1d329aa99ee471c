// Mistakes in SQL, in our words: DuckDB knows nothing of `probing tables`, and offers tables of its own.
#pragma once

#include <span>
#include <string_view>

#include "query/sql_error.h"

namespace probing::query {

// Of an error that was found before anything ran: of a table or a column that does not exist it says so, with
// the nearest name there is; of others it leaves out what DuckDB calls them. `tables` are the names of all
// tables.
void NameWhatWasMeant(SqlError& error, std::string_view sql, std::span<const std::string_view> tables);

}  // namespace probing::query
