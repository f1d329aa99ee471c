#include "table/reference.h"

#include "table/computed.h"
#include "table/registry.h"

namespace probing::table {
namespace {

void AppendTable(std::string& page, const Table& table) {
  const auto text = [](std::string_view view) { return std::string(view); };
  page += "## " + text(table.name) + "\n\n";
  std::string doc = text(table.doc);
  doc[0] = static_cast<char>(doc[0] >= 'a' && doc[0] <= 'z' ? doc[0] - 'a' + 'A' : doc[0]);
  page += doc + ". " +
          (table.kind == Kind::kStored ? "Stored"
           : table.kind == Kind::kLive ? "Live"
                                       : "A view") +
          "; rows from " + OriginName(table.origin) + ".\n\n";
  page += "| column | type | unit | |\n|---|---|---|---|\n";
  for (const auto columns : {table.columns, ComputedColumns(table)}) {
    for (const Column& column : columns)
      page += "| `" + text(column.name) + "` | " + SqlTypeName(column.type) + " | " + text(column.unit) +
              " | " + text(column.doc) + " |\n";
  }
  page += "\n";
}

}  // namespace

std::string Reference() {
  std::string page =
      "<!-- Written by `make reference` from src/table; a test checks that it is up to date. -->\n"
      "# Tables\n\n"
      "**Stored** tables keep the last rows in memory; **live** ones are made when they are asked for; "
      "**views** are SQL over the others. Rows come from the probe inside the target, from outside, or from "
      "probingd itself. `schema.table` sees the targets of the query, `global.schema.table` all that are "
      "known.\n\n"
      "Every table also has these columns:\n\n| column | type | unit | |\n|---|---|---|---|\n";
  for (const Column& column : CommonColumns())
    page += "| `" + std::string(column.name) + "` | " + SqlTypeName(column.type) + " | | " +
            std::string(column.doc) + " |\n";
  page += "| `" + std::string(kExactTime.name) + "` | " + SqlTypeName(kExactTime.type) + " | " +
          std::string(kExactTime.unit) + " | " + std::string(kExactTime.doc) +
          " (stored tables; `timestamp` itself has microseconds) |\n\n";
  for (const Table* table : AllTables()) AppendTable(page, *table);
  page.pop_back();
  return page;
}

}  // namespace probing::table
