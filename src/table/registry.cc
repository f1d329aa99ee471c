#include "table/registry.h"

#include <algorithm>
#include <array>

namespace probing::table {

const char* TypeName(Type type) {
  switch (type) {
    case Type::kInt64:
      return "int64";
    case Type::kDouble:
      return "double";
    case Type::kBool:
      return "bool";
    case Type::kString:
      return "string";
    case Type::kBytes:
      return "bytes";
    case Type::kTimestamp:
      return "timestamp";
  }
  return "";
}

const char* SqlTypeName(Type type) {
  switch (type) {
    case Type::kInt64:
      return "BIGINT";
    case Type::kDouble:
      return "DOUBLE";
    case Type::kBool:
      return "BOOLEAN";
    case Type::kString:
      return "VARCHAR";
    case Type::kBytes:
      return "BLOB";
    case Type::kTimestamp:
      return "TIMESTAMPTZ";
  }
  return "";
}

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kStored:
      return "stored";
    case Kind::kLive:
      return "live";
    case Kind::kView:
      return "view";
  }
  return "";
}

const char* OriginName(Origin origin) {
  switch (origin) {
    case Origin::kProbe:
      return "probe";
    case Origin::kOutside:
      return "outside";
    case Origin::kDaemon:
      return "probingd";
  }
  return "";
}

std::span<const Column> CommonColumns() {
  static constexpr std::array kColumns{
      Column{"pid", Type::kInt64, "", "process id of the target, as its host sees it"},
      Column{"rank", Type::kInt64, "", "rank of the target in its job; NULL outside a job"},
      Column{"host", Type::kString, "", "name of the host the target runs on"},
      Column{"job", Type::kString, "", "name of the job the target belongs to; NULL outside a job"},
  };
  return kColumns;
}

std::span<const Table* const> AllTables() {
  // An array, because this is also in the probe, where nothing may need a destructor.
  struct Sorted {
    std::array<const Table*, 128> tables{};
    std::size_t count = 0;
  };
  static const Sorted sorted = [] {
    Sorted all;
    for (const auto list : {PythonTables(), TorchTables(), ProfileTables(), ProfileViews(), SystemTables(),
                            DeviceTables(), NcclTables(), OwnTables(), Views()}) {
      for (const Table& table : list) all.tables.at(all.count++) = &table;
    }
    std::ranges::sort(std::span(all.tables).first(all.count), {},
                      [](const Table* table) { return table->name; });
    return all;
  }();
  return std::span(sorted.tables).first(sorted.count);
}

const Table* FindTable(std::string_view name) {
  const std::span<const Table* const> tables = AllTables();
  const auto found =
      std::ranges::lower_bound(tables, name, {}, [](const Table* table) { return table->name; });
  return found != tables.end() && (*found)->name == name ? *found : nullptr;
}

namespace {

// As SQL compares names.
bool SameName(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

std::vector<Column> SqlColumns(const Table& table) {
  std::vector<Column> columns(table.columns.begin(), table.columns.end());
  for (const Column& common : CommonColumns()) {
    const bool own =
        std::ranges::any_of(table.columns, [&](const Column& c) { return SameName(c.name, common.name); });
    if (!own) columns.push_back(common);
  }
  const bool has_exact =
      std::ranges::any_of(table.columns, [](const Column& c) { return SameName(c.name, kExactTime.name); });
  if (IsSeries(table) && table.kind != Kind::kView && !has_exact) columns.push_back(kExactTime);
  return columns;
}

bool IsSeries(const Table& table) {
  return !table.columns.empty() && table.columns.front().name == "timestamp";
}

}  // namespace probing::table
