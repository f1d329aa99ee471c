// Names of history files: what a file holds is known without opening it.
//
//   DIR/job=J/rank=R/day=2026-01-31/table=python.gc/HOST~PID~CREATED~LANE~FIRST~ROWS~MIN~MAX.parquet
//
// HOST, PID and CREATED (ns) name a ring; LANE, FIRST and ROWS the rows of it that are in the file,
// counted as the ring counts them; MIN and MAX are the times (ns) between which they are. So a row
// is in a file or it is not, and that is decided by the rename which gives the file its name.
// docs/design/history.md has the reasons.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ring/scan.h"

namespace probing::table {

// One memory file with rows, for ever.
struct RingId {
  std::string host;
  std::int64_t pid = 0;
  std::int64_t created_ns = 0;
  auto operator<=>(const RingId&) const = default;
};

struct HistoryFile {
  std::string job;
  std::optional<std::int64_t> rank;
  std::string day;  // of the last row, in UTC
  std::string table;
  RingId ring;
  std::uint64_t lane = 0;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  std::int64_t min_ns = 0;
  std::int64_t max_ns = 0;

  std::uint64_t end_row() const { return first_row + rows; }
};

std::string HistoryFolder(const HistoryFile& file);  // "job=J/rank=R/day=D/table=T"
std::string HistoryName(const HistoryFile& file);    // "HOST~…~MAX.parquet"
inline std::string HistoryPath(const HistoryFile& file) {
  return HistoryFolder(file) + "/" + HistoryName(file);
}
// `path` as HistoryPath() writes it; nothing for anything else.
std::optional<HistoryFile> ParseHistoryPath(std::string_view path);

std::string DayOf(std::int64_t time_ns);  // "2026-01-31"

// The names of tables, jobs and hosts as parts of a path: letters, digits, '.', '_' and '-' stay, the
// first 80 bytes.
std::string EscapeName(std::string_view name);
std::optional<std::string> UnescapeName(std::string_view name);

// Which files of a directory. What is not there has no files; other people's files are passed over.
struct HistoryFilter {
  std::string table;                // "" for all
  std::optional<std::int64_t> pid;  // of this process only
  std::optional<RingId> ring;       // of this ring only
};
// Sorted by ring, table, lane and row; a file all of whose rows are in another one (somebody was
// stopped between merging files and removing them) is left out, or given to `superseded`.
std::vector<HistoryFile> ListHistory(const std::string& directory, const HistoryFilter& filter,
                                     std::vector<HistoryFile>* superseded = nullptr);

// Names of all tables of which there is a file.
std::vector<std::string> HistoryTables(const std::string& directory);

// Where the reader of a ring goes on behind these files. REQUIRES: files of one table.
ring::Cursor CursorBehind(const std::vector<HistoryFile>& files, const RingId& ring);

}  // namespace probing::table
