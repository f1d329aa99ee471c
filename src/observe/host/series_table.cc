#include "observe/host/series_table.h"

#include <array>
#include <deque>

#include "table/registry.h"
#include "table/rows.h"
#include "table/stored.h"

namespace probing::observe {

Result<SeriesTable> SeriesTable::Add(ring::Arena& arena, std::string_view table,
                                     std::span<const std::string_view> columns, std::uint64_t rows) {
  const table::Table* declared = table::FindTable(table);
  if (declared == nullptr) return Error{Code::kFailed, "no table " + std::string(table) + " is declared", ""};
  ring::TableOptions options{.name = std::string(table), .columns = {}, .rows = rows};
  for (const table::Column& column : declared->columns) {
    options.columns.push_back(table::InRing(column));
  }
  std::vector<std::uint32_t> positions;
  for (const std::string_view name : columns) {
    std::uint32_t position = 0;
    while (position < declared->columns.size() && declared->columns[position].name != name) ++position;
    if (position == declared->columns.size()) {
      return Error{Code::kFailed, std::string(table) + " has no column " + std::string(name), ""};
    }
    positions.push_back(position);
  }
  ASSIGN_OR_RETURN(ring::Table * added, arena.AddTable(std::move(options)));
  return SeriesTable(added, std::move(positions));
}

void SeriesTable::Write(std::int64_t time_ns, std::span<const ring::Cell> cells) {
  std::array<ring::Cell, ring::kMaxColumns> row;
  const auto width = static_cast<std::uint32_t>(table_->columns().size());
  std::fill_n(row.begin(), width, ring::Cell::Null());
  row[0] = ring::Cell::Timestamp(time_ns);
  std::deque<std::string> repaired;  // keeps addresses
  for (std::size_t i = 0; i < positions_.size(); ++i) {
    ring::Cell cell = cells[i];
    if (cell.kind() == ring::Cell::Kind::kString && !table::IsUtf8(cell.text())) {
      cell = ring::Cell::String(repaired.emplace_back(table::ToUtf8(cell.text())));
    }
    row[positions_[i]] = cell;
  }
  table_->Write(row.data(), width);
}

}  // namespace probing::observe
