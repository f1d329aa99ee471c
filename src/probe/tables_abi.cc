// probing_open_table() and probing_append(): tables that native code of the job writes.
#include <string>
#include <string_view>
#include <vector>

#include "probing/probing.h"
#include "pyapi/functions.h"
#include "record/recorder.h"

namespace probing::probe {
namespace {

using ring::Cell;
using ring::ColumnType;

constexpr int kMostColumns = static_cast<int>(ring::kMaxColumns) - 1;

// "schema.name", and not in a schema where SQL would not find it.
bool IsTableName(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos || dot + 1 == name.size()) return false;
  for (const std::string_view taken : {"probing", "system", "global", "memory", "temp", "main", "crash"}) {
    if (name.substr(0, dot) == taken) return false;
  }
  return true;
}

bool ToColumn(const probing_column& column, std::vector<ring::Column>& columns) {
  static constexpr ColumnType kTypes[] = {ColumnType::kInt64,  ColumnType::kDouble, ColumnType::kBool,
                                          ColumnType::kString, ColumnType::kBytes,  ColumnType::kTimestamp};
  if (column.name == nullptr || column.type < PROBING_INT64 || column.type > PROBING_TIMESTAMP) return false;
  columns.push_back({column.name, kTypes[column.type - PROBING_INT64]});
  return true;
}

Cell ToCell(const probing_value& value) {
  switch (value.type) {
    case PROBING_INT64:
      return Cell::Int(value.as.integer);
    case PROBING_DOUBLE:
      return Cell::Double(value.as.real);
    case PROBING_BOOL:
      return Cell::Bool(value.as.integer != 0);
    case PROBING_STRING:
      return Cell::String({value.as.text, value.size});
    case PROBING_BYTES:
      return Cell::Bytes({value.as.text, value.size});
    case PROBING_TIMESTAMP:
      return Cell::Timestamp(value.as.integer);
    default:
      return Cell::Null();
  }
}

}  // namespace
}  // namespace probing::probe

probing_table* probing_open_table(const char* name, const probing_column* columns, int count) {
  using namespace probing;
  if (name == nullptr || columns == nullptr || count < 1 || count > probe::kMostColumns) return nullptr;
  if (!probe::IsTableName(name)) return nullptr;
  std::vector<ring::Column> all{{"timestamp", ring::ColumnType::kTimestamp}};
  for (int i = 0; i < count; ++i) {
    if (!probe::ToColumn(columns[i], all)) return nullptr;
  }
  const Result<record::TableHandle*> table = record::Recorder::FindTable(name, std::move(all));
  if (!table.ok()) return nullptr;
  pyapi::KeepForNativeCode();
  return reinterpret_cast<probing_table*>(*table);
}

// A hot path: no lock, no allocation.
int probing_append(probing_table* table, const probing_value* values, int count) {
  using namespace probing;
  auto* handle = reinterpret_cast<record::TableHandle*>(table);
  if (handle == nullptr || count < 0 || static_cast<std::size_t>(count) >= handle->columns().size()) return 0;
  ring::Cell cells[ring::kMaxColumns];
  cells[0] = ring::Cell::Null();
  for (int i = 0; i < count; ++i) cells[i + 1] = probe::ToCell(values[i]);
  return handle->Write(cells, static_cast<std::uint32_t>(count) + 1) == ring::WriteStatus::kWritten ? 1 : 0;
}
