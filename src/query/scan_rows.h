// The rows of a scan, from a table's source into DuckDB's vectors.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "query/duckdb_api.h"
#include "query/gathered_rows.h"
#include "query/scan_catalog.h"

namespace probing::query {

// One column of the output, in the order DuckDB wants them.
struct OutputColumn {
  enum class From { kSource, kPid, kRank, kHost, kJob, kNothing } from;
  bool to_microseconds = false;
};

struct ScanState {
  std::shared_ptr<Scope> scope;
  std::string table;
  std::vector<OutputColumn> outputs;
  std::vector<table::Part> parts;
  std::vector<std::shared_ptr<const GatheredRows>> gathered;  // after them; shared with their cursors
  std::atomic<std::size_t> next_part = 0;
  std::atomic<std::size_t> failed_parts = 0;
};

// One thread's share of a scan.
struct ThreadState {
  std::unique_ptr<table::Cursor> cursor;
  const table::Target* target = nullptr;
  bool has_all_columns = false;  // the cursor gives pid, rank, host and job, too
  std::vector<std::array<std::uint64_t, table::kBatchRows / 64>> validity;
};

// Reads the next rows, of whichever part has some, and returns how many; 0 at the end. PutBatch() does what
// is left: which are NULL, constant columns, units.
Result<std::size_t> FillChunk(const DuckDb& api, ScanState& scan, ThreadState& mine, duckdb_data_chunk chunk);
void PutBatch(const DuckDb& api, const ScanState& scan, ThreadState& mine, duckdb_data_chunk chunk,
              std::size_t count);

}  // namespace probing::query
