// What one query may cost. Each limit is a setting; an error names it.
#pragma once

#include <cstdint>

namespace probing::query {

struct Limits {
  std::int64_t timeout_ms = 10'000;              // probing.query.timeout
  std::int64_t memory_bytes = 256LL << 20;       // probing.query.memory; fixed when the engine opens
  std::int64_t rows = 1'000'000;                 // probing.query.rows
};

}  // namespace probing::query
