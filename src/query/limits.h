// What one query may cost. Each limit is a setting; an error names it.
#pragma once

#include <cstdint>
#include <string_view>

#include "query/sql_error.h"

namespace probing::query {

struct Limits {
  std::int64_t timeout_ms = 10'000;         // probing.query.timeout
  std::int64_t memory_bytes = 256LL << 20;  // probing.query.memory; fixed when the engine opens
  std::int64_t rows = 1'000'000;            // probing.query.rows
};

// How long a query waits for a worker that others use.
inline constexpr std::int64_t kQueueMs = 60'000;

SqlError OutOfMemoryError(const Limits& limits, std::string_view details);
SqlError TimeLimitError(const Limits& limits);
SqlError RowLimitError(const Limits& limits);
SqlError QueueError();      // no worker became free within kQueueMs
SqlError CancelledError();  // nobody reads it, but an answer needs one

}  // namespace probing::query
