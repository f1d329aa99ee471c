// For tests: what a ring holds of one table, as text, row by row.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/arena.h"
#include "ring/reader.h"

namespace probing::observe {

// Column → value; NULL is nullopt.
using TextRow = std::map<std::string, std::optional<std::string>, std::less<>>;

inline std::vector<TextRow> ReadRows(const ring::Arena& arena, std::string_view table) {
  std::vector<TextRow> rows;
  const std::string path = "/proc/self/fd/" + std::to_string(arena.fd());
  auto reader = ring::Reader::Open(ScopedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)));
  EXPECT_TRUE(reader.ok());
  for (const ring::TableInfo& info : reader->Tables()) {
    if (info.name != table) continue;
    ring::ScanOptions options;
    for (std::uint32_t c = 0; c < info.columns.size(); ++c) options.columns.push_back(c);
    ring::Scan scan = reader->StartScan(info, options);
    for (ring::Batch batch; scan.Next(&batch);) {
      for (std::size_t r = 0; r < batch.rows(); ++r) {
        TextRow& row = rows.emplace_back();
        for (std::size_t c = 0; c < info.columns.size(); ++c) {
          std::optional<std::string>& value = row[info.columns[c].name];
          if (batch.IsNull(c, r)) continue;
          switch (info.columns[c].type) {
            case ring::ColumnType::kDouble:
              value = std::to_string(batch.Doubles(c)[r]);
              break;
            case ring::ColumnType::kString:
              value = batch.Texts(c)[r];
              break;
            default:
              value = std::to_string(batch.Int64s(c)[r]);
          }
        }
      }
    }
    return rows;
  }
  return rows;
}

}  // namespace probing::observe
