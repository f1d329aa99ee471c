// For the tests of this folder: an arena, its rows as text, a reader of it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "ring/arena.h"
#include "ring/reader.h"

namespace probing::ring::testing {

inline std::unique_ptr<Arena> MakeArena(std::uint64_t max_memory = 64U << 20) {
  ArenaOptions options;
  options.max_memory = max_memory;
  Result<std::unique_ptr<Arena>> arena = Arena::Create(std::move(options));
  EXPECT_TRUE(arena.ok()) << arena.error().message;
  return arena.ok() ? std::move(*arena) : nullptr;
}

inline Table* MakeTable(Arena* arena, TableOptions options) {
  Result<Table*> table = arena->AddTable(std::move(options));
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.ok() ? *table : nullptr;
}

inline Reader OpenReader(int fd) {
  Result<Reader> reader = Reader::Open(ScopedFd(dup(fd)));
  if (!reader.ok()) {
    ADD_FAILURE() << reader.error().message;
    abort();
  }
  return std::move(*reader);
}

inline TableInfo FindTable(Reader* reader, const std::string& name) {
  for (TableInfo& table : reader->Tables()) {
    if (table.name == name) return std::move(table);
  }
  ADD_FAILURE() << "no table " << name;
  return {};
}

// The values of an integer column, all batches one after the other.
inline std::vector<std::int64_t> ReadInts(Reader* reader, const std::string& table, std::uint32_t column,
                                          ScanOptions options = {}, ScanStats* stats = nullptr) {
  options.columns = {column};
  std::vector<std::int64_t> values;
  Scan scan = reader->StartScan(FindTable(reader, table), std::move(options));
  for (Batch batch; scan.Next(&batch);) {
    values.insert(values.end(), batch.Int64s(0).begin(), batch.Int64s(0).end());
  }
  if (stats != nullptr) *stats = scan.stats();
  return values;
}

// The same for strings and bytes; NULL is "NULL".
inline std::vector<std::string> ReadTexts(Reader* reader, const std::string& table, std::uint32_t column) {
  std::vector<std::string> values;
  Scan scan = reader->StartScan(FindTable(reader, table), {.columns = {column}});
  for (Batch batch; scan.Next(&batch);) {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      values.emplace_back(batch.IsNull(0, row) ? "NULL" : batch.Texts(0)[row]);
    }
  }
  EXPECT_EQ(scan.stats().bad_cells, 0U);
  return values;
}

}  // namespace probing::ring::testing
