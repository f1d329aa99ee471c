// Rows of stored tables: what is in the targets' rings and, where there is history, what is in
// files, each row once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "query/parquet_store.h"
#include "table/source.h"
#include "table/user_table.h"

namespace probing::query {

// Opens its store when somebody reads a file for the first time. Thread-safe.
class HistoryReader {
 public:
  explicit HistoryReader(std::int64_t memory_bytes) : memory_bytes_(memory_bytes) {}
  Result<ParquetStore*> store();

 private:
  std::int64_t memory_bytes_;
  std::mutex mutex_;
  std::unique_ptr<ParquetStore> store_;
};

// REQUIRES: `table` and `reader` outlive the source.
std::unique_ptr<table::Source> MakeStoredSource(const table::Table& table, HistoryReader& reader);

// Adds the undeclared tables that only files know any more, and columns that only they have.
void AddHistoryTables(const table::HistoryScope& history, HistoryReader& reader,
                      std::vector<std::shared_ptr<table::UserTable>>& tables);

}  // namespace probing::query
