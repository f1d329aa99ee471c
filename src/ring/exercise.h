// For tests and the fuzzer: reads all there is of a ring and looks at every byte of it.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "ring/arena.h"
#include "ring/reader.h"

namespace probing::ring {

inline std::uint64_t LookAt(const Batch& batch, const std::vector<Column>& columns) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      if (batch.IsNull(i, row)) continue;
      if (IsText(columns[i].type)) {
        for (const char c : batch.Texts(i)[row]) sum += static_cast<unsigned char>(c);
      } else if (columns[i].type == ColumnType::kBool) {
        sum += batch.Bools(i)[row];
      } else {
        sum += static_cast<std::uint64_t>(batch.Int64s(i)[row]);
      }
    }
  }
  return sum;
}

// How many rows came. Every column of every table, twice: from the beginning and behind a cursor.
inline std::uint64_t ReadEverything(Reader* reader, std::uint64_t* sum) {
  std::uint64_t rows = 0;
  for (const TableInfo& table : reader->Tables()) {
    std::vector<std::uint32_t> all(table.columns.size());
    std::iota(all.begin(), all.end(), 0);
    Cursor cursor;
    for (Cursor* from : {static_cast<Cursor*>(nullptr), &cursor}) {
      Scan scan = reader->StartScan(table, {.columns = all, .cursor = from});
      for (Batch batch; scan.Next(&batch);) {
        rows += batch.rows();
        *sum += LookAt(batch, table.columns);
      }
    }
  }
  return rows;
}

// The bytes of a small ring with every type of column, both kinds of string, and overwritten rows.
inline std::string SampleRing() {
  ArenaOptions options;
  options.dictionary_bytes = 64U << 10;
  Result<std::unique_ptr<Arena>> arena = Arena::Create(std::move(options));
  if (!arena.ok()) return "";
  Result<Table*> table = (*arena)->AddTable({.name = "test.sample",
                                             .columns = {{"time", ColumnType::kTimestamp},
                                                         {"int", ColumnType::kInt64},
                                                         {"double", ColumnType::kDouble},
                                                         {"bool", ColumnType::kBool},
                                                         {"string", ColumnType::kString},
                                                         {"bytes", ColumnType::kBytes}},
                                             .rows = 100});
  if (!table.ok()) return "";
  for (int i = 0; i < 300; ++i) {
    const std::string name = "name-" + std::to_string(i % 10);
    const std::string bytes(70 + i, static_cast<char>(i));
    RowWriter row(**table);
    row.SetInt(1, i);
    if (i % 3 != 0) row.SetDouble(2, i);
    row.SetBool(3, i % 2 == 0);
    row.SetString(4, name);
    if (i % 2 == 0) row.SetBytes(5, bytes);
    row.Commit();
  }
  const off_t size = lseek((*arena)->fd(), 0, SEEK_END);
  std::string image(static_cast<std::size_t>(size), '\0');
  return pread((*arena)->fd(), image.data(), image.size(), 0) == size ? image : "";
}

}  // namespace probing::ring
