#include "console/live_table.h"

#include <bit>

#include "pyapi/cells.h"
#include "pyapi/ref.h"
#include "table/registry.h"
#include "table/rows.h"
#include "table/stored.h"

namespace probing::console {

using pyapi::Ref;

namespace {

table::Value ToValue(const ring::Cell& cell) {
  switch (cell.kind()) {
    case ring::Cell::Kind::kNull:
    case ring::Cell::Kind::kInterned:  // of rings only
      return {};
    case ring::Cell::Kind::kInt64:
    case ring::Cell::Kind::kTimestamp:
      return static_cast<std::int64_t>(cell.bits());
    case ring::Cell::Kind::kDouble:
      return std::bit_cast<double>(cell.bits());
    case ring::Cell::Kind::kBool:
      return cell.bits() != 0;
    case ring::Cell::Kind::kString:
    case ring::Cell::Kind::kBytes:
      return std::string(cell.text());
  }
  return {};
}

// A value that does not fit its column is NULL: one odd module must not hide all others.
std::vector<table::Value> RowOf(const PythonApi& api, const std::vector<ring::Column>& columns,
                                PyObject* row) {
  std::vector<table::Value> values;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    pyapi::KeptObjects kept(api);
    ring::Cell cell = ring::Cell::Null();
    const Ref item = Ref::New(api, api.PySequence_GetItem(row, static_cast<std::ptrdiff_t>(i)));
    if (!item || !pyapi::ToCell(api, item.get(), columns[i], &cell, &kept)) {
      api.PyErr_Clear();
      cell = ring::Cell::Null();
    }
    values.push_back(ToValue(cell));
  }
  return values;
}

}  // namespace

Result<std::vector<ring::Column>> FindLiveTable(const std::string& name,
                                                const std::vector<std::string>& columns) {
  for (const auto list : {table::PythonTables(), table::TorchTables()}) {
    for (const table::Table& declared : list) {
      if (declared.name != name || declared.kind != table::Kind::kLive ||
          declared.origin != table::Origin::kProbe) {
        continue;
      }
      std::vector<ring::Column> shape;
      for (const std::string& wanted : columns) {
        for (const table::Column& column : declared.columns) {
          if (column.name == wanted) shape.push_back(table::InRing(column));
        }
      }
      if (shape.size() == columns.size()) return shape;
      return Error{Code::kUsage, name + " has not all of these columns", "see probing.columns"};
    }
  }
  return Error{Code::kUsage, "the probe makes no table " + name, "see probing.tables"};
}

Result<std::string> EncodeLiveRows(const PythonApi& api, const std::vector<ring::Column>& columns,
                                   PyObject* answer) {
  if (answer == nullptr) return Error{Code::kTimeout, "making the table took too long", "try again"};
  if (api.TypeOf(answer) == api.PyUnicode_Type) {
    const char* text = api.PyUnicode_AsUTF8AndSize(answer, nullptr);
    api.PyErr_Clear();
    return Error{Code::kFailed, "the table could not be made: " + std::string(text != nullptr ? text : ""),
                 ""};
  }
  std::vector<table::Type> types;
  for (const ring::Column& column : columns) types.push_back(table::FromRing(column.type));
  table::Rows made(std::move(types));
  PyObject* rows = api.PyTuple_GetItem(answer, 0);
  PyObject* note = rows == nullptr ? nullptr : api.PyTuple_GetItem(answer, 1);
  if (note != nullptr && api.TypeOf(note) == api.PyUnicode_Type) {
    if (const char* text = api.PyUnicode_AsUTF8AndSize(note, nullptr)) made.set_note(text);
  }
  const std::ptrdiff_t count = rows == nullptr ? 0 : api.PySequence_Size(rows);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const Ref row = Ref::New(api, api.PySequence_GetItem(rows, i));
    if (!row) break;
    made.Add(RowOf(api, columns, row.get()));
  }
  api.PyErr_Clear();
  return made.Encode();
}

}  // namespace probing::console
