#include "table/reference.h"

#include "table/computed.h"
#include "table/registry.h"

namespace probing::table {
namespace {

// Tables that C++ code writes into, whose rows are structs.
constexpr std::string_view kWritten[] = {"python.gc",
                                         "python.memory",
                                         "python.spans",
                                         "python.torch_trace",
                                         "python.torch_steps",
                                         "python.collectives",
                                         "python.collective_starts",
                                         "python.process_groups"};

// "torch_steps" becomes TorchSteps.
std::string CamelCase(std::string_view name) {
  std::string text;
  bool starts = true;
  for (const char c : name) {
    if (c != '_' && c != '.') text += static_cast<char>(starts && c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    starts = c == '_' || c == '.';
  }
  return text;
}

const char* CellName(Type type) {
  switch (type) {
    case Type::kInt64:
      return "Int64Cell";
    case Type::kDouble:
      return "DoubleCell";
    case Type::kBool:
      return "BoolCell";
    case Type::kTimestamp:
      return "TimestampCell";
    case Type::kString:
    case Type::kBytes:
      return "StringCell";
  }
  return "";
}

void AppendRow(std::string& header, const Table& table) {
  std::string fields, columns, cells;
  for (const Column& column : table.columns) {
    const std::string name(column.name);
    fields += "  " + std::string(CellName(column.type)) + " " + name + ";\n";
    columns += (columns.empty() ? "k" : ", k") + CamelCase(name);
    cells += (cells.empty() ? "" : ", ") + name + ".cell()";
  }
  header += "struct " + CamelCase(table.name) + "Row {\n  static constexpr std::string_view kTable = \"" +
            std::string(table.name) + "\";\n  enum Column : std::uint32_t { " + columns + " };\n\n" + fields +
            "\n  std::array<ring::Cell, " + std::to_string(table.columns.size()) +
            "> Cells() const {\n    return {" + cells + "};\n  }\n};\n\n";
}

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

std::string WrittenRows() {
  std::string header =
      "// Written by `make reference` from src/table; a test checks that it is up to date.\n"
      "// Rows of the tables that C++ code writes, by the names of their columns. What is not set is NULL.\n"
      "// clang-format off\n#pragma once\n\n#include <array>\n#include <string_view>\n\n"
      "#include \"table/typed_cell.h\"\n\nnamespace probing::table {\n\n";
  for (const std::string_view name : kWritten) AppendRow(header, *FindTable(name));
  return header + "}  // namespace probing::table\n";
}

}  // namespace probing::table
