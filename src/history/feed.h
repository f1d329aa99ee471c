// Feed: new rows of one table of a ring, cut into what goes into one file each.
//
//   Feed feed(reader, info, behind, about);
//   while (feed.NextFile()) { …read rows with Next() until it returns 0…; feed.file() }
#pragma once

#include <vector>

#include "query/parquet_store.h"
#include "ring/reader.h"
#include "table/history_files.h"
#include "table/ring_batch.h"
#include "table/source.h"
#include "table/user_table.h"

namespace probing::history {

class Feed : public table::Cursor {
 public:
  // Reads the rows behind `behind`. REQUIRES: `reader` and `about` outlive this, and nobody else uses
  // the reader meanwhile.
  Feed(ring::Reader& reader, const ring::TableInfo& info, ring::Cursor behind, const table::Target& about);

  // The table's own columns, then pid, rank and host where it has none of that name: so a file means
  // something to other programs, too.
  const std::vector<query::FileColumn>& columns() const { return columns_; }

  // Goes on to the rows of the next file: of one lane, without a gap, and not too many. False when
  // there are no more.
  bool NextFile();

  Result<std::size_t> Next(std::span<table::ColumnOut> columns) override;

  // Lane, rows and times of the current file, complete when Next() has returned 0.
  const table::HistoryFile& file() const { return file_; }

 private:
  bool Load();  // the next batch, unless one waits
  void PutTarget(std::size_t index, std::size_t count, table::ColumnOut& out) const;

  const table::Target& about_;
  table::UserTable table_;
  std::vector<query::FileColumn> columns_;
  std::size_t own_columns_ = 0;
  ring::Cursor behind_;
  std::optional<table::BatchColumns> batch_columns_;
  std::optional<ring::Scan> scan_;
  ring::Batch batch_;
  std::size_t at_ = 0;
  table::HistoryFile file_;
};

}  // namespace probing::history
