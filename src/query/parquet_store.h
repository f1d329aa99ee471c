// ParquetStore: rows into Parquet files and out of them.
//
// It is a DuckDB of its own, beside the one that runs people's SQL: this one may open files, and
// nobody's SQL ever gets here; that one has the SQL and may not open any. Files are given as
// descriptors, so no name is looked up twice and none is a pattern.
// Thread-safe, except that one Write() or Merge() runs at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "table/source.h"

namespace probing::query {

struct FileColumn {
  std::string name;
  table::Type type;
};

class ParquetStore {
 public:
  static Result<std::unique_ptr<ParquetStore>> Open(std::int64_t memory_bytes);
  ~ParquetStore();
  ParquetStore(const ParquetStore&) = delete;
  ParquetStore& operator=(const ParquetStore&) = delete;

  // Writes all rows of `rows`, which has these columns, compressed (zstd). Timestamps keep their
  // nanoseconds. After an error the file has some content or other.
  Result<void> Write(const ScopedFd& file, const std::vector<FileColumn>& columns, table::Cursor& rows);

  // Writes the rows of `files` into `into`, in their order; columns by name.
  Result<void> Merge(const std::vector<ScopedFd>& files, const ScopedFd& into);

  // Of types that our tables have; columns of other types are left out.
  Result<std::vector<FileColumn>> Columns(const ScopedFd& file);

  // The requested columns (indexes into table.columns). A column that the file has not got, and a
  // value that cannot have the declared type, is NULL. Rows outside of `time` may be left out.
  // REQUIRES: the store outlives the cursor.
  Result<std::unique_ptr<table::Cursor>> Read(ScopedFd file, const table::Table& table,
                                              const std::vector<std::size_t>& columns, table::TimeRange time);

 private:
  class Impl;
  explicit ParquetStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace probing::query
