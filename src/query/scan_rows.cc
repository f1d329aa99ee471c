#include "query/scan_rows.h"

#include <algorithm>
#include <cstring>

namespace probing::query {
namespace {

using table::kBatchRows;

// A source writes its texts where DuckDB expects its own.
static_assert(sizeof(table::Text) == sizeof(duckdb_string_t));
static_assert(offsetof(duckdb_string_t, value.pointer.ptr) == 8);
static_assert(offsetof(duckdb_string_t, value.inlined.inlined) == 4);

void PutNanosecondsAsMicroseconds(std::int64_t* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t ns = values[i];
    values[i] = ns / 1000 - static_cast<std::int64_t>(ns % 1000 < 0);  // rounds down before 1970 too
  }
}

// Constant columns are one value for DuckDB, whatever the number of rows.
void PutTarget(const DuckDb& api, duckdb_vector vector, const OutputColumn& output,
               const table::Target* target) {
  duckdb_value value = nullptr;
  if (target != nullptr && output.from == OutputColumn::From::kPid) value = api.create_int64(target->pid);
  if (target != nullptr && output.from == OutputColumn::From::kRank && target->rank)
    value = api.create_int64(*target->rank);
  if (target != nullptr && output.from == OutputColumn::From::kHost)
    value = api.create_varchar_length(target->host.data(), target->host.size());
  if (target != nullptr && output.from == OutputColumn::From::kJob && !target->job.empty())
    value = api.create_varchar_length(target->job.data(), target->job.size());
  if (value == nullptr) {
    api.vector_ensure_validity_writable(vector);
    std::memset(api.vector_get_validity(vector), 0, kBatchRows / 8);
    return;
  }
  api.vector_reference_value(vector, value);
  api.destroy_value(&value);
}

bool IsFromCursor(const OutputColumn& output, const ThreadState& mine) {
  using enum OutputColumn::From;
  return output.from == kSource || (mine.has_all_columns && output.from != kNothing);
}

// Opens the next part that can be read; false when there is none. A part that cannot be read is
// an error when it is the only one, and otherwise a warning.
Result<bool> NextPart(ScanState& scan, ThreadState& mine) {
  mine.cursor.reset();
  while (true) {
    const std::size_t index = scan.next_part.fetch_add(1);
    mine.has_all_columns = index >= scan.parts.size();
    if (mine.has_all_columns) {
      if (index - scan.parts.size() >= scan.gathered.size()) return false;
      mine.cursor = MakeGatheredCursor(scan.gathered[index - scan.parts.size()]);
      return true;
    }
    const table::Part& part = scan.parts[index];
    Result<std::unique_ptr<table::Cursor>> cursor = part.open();
    const auto warn = [&](std::string_view why) {
      scan.scope->Warn(scan.table +
                       (part.target == nullptr ? "" : " of " + std::to_string(part.target->pid)) + ": " +
                       std::string(why));
    };
    if (cursor.ok()) {
      if (const std::string_view note = (*cursor)->note(); !note.empty()) warn(note);
      mine.cursor = std::move(*cursor);
      mine.target = part.target;
      return true;
    }
    if (scan.failed_parts.fetch_add(1) + 1 == scan.parts.size() && scan.gathered.empty())
      return cursor.error();
    warn(cursor.error().message);
  }
}

}  // namespace

Result<std::size_t> FillChunk(const DuckDb& api, ScanState& scan, ThreadState& mine,
                              duckdb_data_chunk chunk) {
  mine.validity.resize(scan.outputs.size());
  while (true) {
    if (mine.cursor == nullptr) {
      ASSIGN_OR_RETURN(const bool found, NextPart(scan, mine));
      if (!found) return std::size_t{0};
    }
    std::vector<table::ColumnOut> columns;
    for (std::size_t i = 0; i < scan.outputs.size(); ++i) {
      if (IsFromCursor(scan.outputs[i], mine))
        columns.emplace_back(api.vector_get_data(api.data_chunk_get_vector(chunk, i)),
                             mine.validity[i].data());
    }
    for (auto& words : mine.validity) words.fill(~std::uint64_t{0});
    ASSIGN_OR_RETURN(const std::size_t count, mine.cursor->Next(columns));
    if (count > 0) return count;
    mine.cursor.reset();
  }
}

void PutBatch(const DuckDb& api, const ScanState& scan, ThreadState& mine, duckdb_data_chunk chunk,
              std::size_t count) {
  for (std::size_t i = 0; i < scan.outputs.size(); ++i) {
    const OutputColumn& output = scan.outputs[i];
    duckdb_vector vector = api.data_chunk_get_vector(chunk, i);
    if (output.from == OutputColumn::From::kNothing) continue;
    if (!IsFromCursor(output, mine)) {
      PutTarget(api, vector, output, mine.target);
      continue;
    }
    if (output.to_microseconds)
      PutNanosecondsAsMicroseconds(static_cast<std::int64_t*>(api.vector_get_data(vector)), count);
    // A column without NULLs gets no validity mask at all: the engine is faster without.
    const auto& validity = mine.validity[i];
    if (std::ranges::all_of(validity, [](std::uint64_t word) { return word == ~std::uint64_t{0}; })) continue;
    api.vector_ensure_validity_writable(vector);
    std::memcpy(api.vector_get_validity(vector), validity.data(), sizeof(validity));
  }
  api.data_chunk_set_size(chunk, count);
}

}  // namespace probing::query
