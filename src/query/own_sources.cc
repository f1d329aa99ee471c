#include "query/own_sources.h"

#include <utility>

#include "table/computed.h"
#include "table/registry.h"
#include "table/rows.h"

namespace probing::query {
namespace {

using table::Rows;
using table::Value;

Value Text(std::string_view text) { return std::string(text); }

// Keeps the requested values of a full row.
void AddRow(Rows& rows, const std::vector<Value>& row, const std::vector<std::size_t>& columns) {
  std::vector<Value> picked;
  for (const std::size_t column : columns) picked.push_back(row[column]);
  rows.Add(std::move(picked));
}

std::vector<table::Column> AllColumns(const table::Table& table) {
  std::vector<table::Column> columns = table::SqlColumns(table);
  const auto computed = table::ComputedColumns(table);
  columns.insert(columns.end(), computed.begin(), computed.end());
  return columns;
}

}  // namespace

std::shared_ptr<table::Source> MakeTablesSource(ListTables list) {
  const table::Table* self = table::FindTable("probing.tables");
  return table::MakeRowsSource(
      {self,
       [self, list = std::move(list)](const table::Target*,
                                      const std::vector<std::size_t>& columns) -> Result<Rows> {
         Rows rows(table::TypesOf(*self, columns));
         for (const table::Table* table : list()) {
           const auto count = static_cast<std::int64_t>(AllColumns(*table).size());
           AddRow(rows,
                  {Text(table->name), Text(KindName(table->kind)), Text(OriginName(table->origin)), count,
                   Text(table->doc)},
                  columns);
         }
         return rows;
       }});
}

std::shared_ptr<table::Source> MakeColumnsSource(ListTables list) {
  const table::Table* self = table::FindTable("probing.columns");
  return table::MakeRowsSource(
      {self,
       [self, list = std::move(list)](const table::Target*,
                                      const std::vector<std::size_t>& columns) -> Result<Rows> {
         Rows rows(table::TypesOf(*self, columns));
         for (const table::Table* table : list()) {
           std::int64_t position = 0;
           for (const table::Column& column : AllColumns(*table)) {
             AddRow(rows,
                    {Text(table->name), Text(column.name), ++position, Text(SqlTypeName(column.type)),
                     Text(column.unit), Text(column.doc)},
                    columns);
           }
         }
         return rows;
       }});
}

std::shared_ptr<table::Source> MakeMissingSource(const table::Table& table) {
  return table::MakeRowsSource(
      {&table, [](const table::Target*, const std::vector<std::size_t>&) -> Result<Rows> {
         return Error{Code::kFailed, "nobody here can produce its rows",
                      "`SELECT table_name, doc FROM probing.tables` lists all tables"};
       }});
}

}  // namespace probing::query
