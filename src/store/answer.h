// What a store answers to somebody's SQL.
//
// So that every format is written by one piece of code, an answer is turned into a statement for our own
// engine which has all of its rows as one literal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/client.h"

namespace probing::store {

struct AskOptions {
  std::int64_t timeout_ms = 10'000;
  std::int64_t max_rows = 1'000'000;
};

// Runs the SQL there, with our names of tables (names.h); it may only read. The result is a SELECT for
// DuckDB whose result is that of the SQL.
Result<std::string> AskStore(const Client& client, std::string_view sql, const AskOptions& options);

// The same for what the server has sent as TabSeparatedWithNamesAndTypes.
Result<std::string> ToSelect(std::string_view answer);

}  // namespace probing::store
