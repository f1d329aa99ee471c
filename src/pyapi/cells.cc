#include "pyapi/cells.h"

#include <algorithm>

#include "pyapi/functions.h"
#include "pyapi/ref.h"
#include "record/overhead.h"

namespace probing::pyapi {
namespace {

using ring::Cell;
using ring::ColumnType;

const char* WantedValue(ColumnType type) {
  switch (type) {
    case ColumnType::kInt64:
      return "an int";
    case ColumnType::kDouble:
      return "a float";
    case ColumnType::kBool:
      return "a bool";
    case ColumnType::kString:
      return "a str";
    case ColumnType::kBytes:
      return "bytes";
    case ColumnType::kTimestamp:
      return "an int of nanoseconds since 1970 (time.time_ns())";
  }
  return "";
}

bool Raise(const PythonApi& api, PyObject* kind, const ring::Column& column, const std::string& what) {
  api.PyErr_Clear();
  api.PyErr_SetString(kind, ("column '" + column.name + "' " + what).c_str());
  return false;
}

std::string TypeNameOf(const PythonApi& api, PyObject* value) {
  std::string name = "another type";
  const Ref text = Ref::New(api, api.PyObject_GetAttrString(api.TypeOf(value), "__name__"));
  const char* utf8 = text ? api.PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
  if (utf8 != nullptr) name = utf8;
  api.PyErr_Clear();
  return name;
}

bool RaiseType(const PythonApi& api, PyObject* value, const ring::Column& column) {
  return Raise(api, *api.PyExc_TypeError, column,
               std::string("takes ") + WantedValue(column.type) + ", not " + TypeNameOf(api, value));
}

bool RaiseTooLarge(const PythonApi& api, const ring::Column& column) {
  return Raise(api, *api.PyExc_OverflowError, column, "takes 64-bit integers; this one is larger");
}

// Of an int or a subclass.
bool IntValue(const PythonApi& api, PyObject* number, const ring::Column& column, std::int64_t* value) {
  int overflow = 0;
  *value = api.PyLong_AsLongLongAndOverflow(number, &overflow);
  return overflow == 0 || RaiseTooLarge(api, column);
}

// Of whatever says that it is an integer: numpy.int64, a tensor with one element, an enum.
bool IndexValue(const PythonApi& api, PyObject* value, const ring::Column& column, std::int64_t* number) {
  const Ref index = Ref::New(api, api.PyNumber_Index(value));
  return index ? IntValue(api, index.get(), column, number) : RaiseType(api, value, column);
}

bool DoubleValue(const PythonApi& api, PyObject* value, const ring::Column& column, double* number) {
  if (api.PyType_IsSubtype(api.TypeOf(value), api.PyUnicode_Type) != 0) return RaiseType(api, value, column);
  *number = api.PyFloat_AsDouble(value);
  if (*number != -1.0 || api.PyErr_Occurred() == nullptr) return true;
  if (api.PyErr_ExceptionMatches(*api.PyExc_OverflowError) != 0) {
    return Raise(api, *api.PyExc_OverflowError, column, "takes floats; this int is larger than any");
  }
  api.PyErr_Clear();
  const Ref index = Ref::New(api, api.PyNumber_Index(value));  // before 3.8 that was not tried
  if (!index) return RaiseType(api, value, column);
  *number = api.PyFloat_AsDouble(index.get());
  return *number != -1.0 || api.PyErr_Occurred() == nullptr || RaiseTooLarge(api, column);
}

bool ToInteger(const PythonApi& api, PyObject* value, const ring::Column& column, Cell* cell) {
  PyObject* const type = api.TypeOf(value);
  std::int64_t number = 0;
  if (type == api.PyLong_Type || type == api.PyBool_Type) {
    if (!IntValue(api, value, column, &number)) return false;
  } else if (!IndexValue(api, value, column, &number)) {
    return false;
  }
  *cell = column.type == ColumnType::kTimestamp ? Cell::Timestamp(number) : Cell::Int(number);
  return true;
}

bool ToDouble(const PythonApi& api, PyObject* value, const ring::Column& column, Cell* cell) {
  double number = 0;
  if (api.TypeOf(value) == api.PyFloat_Type) {
    number = api.PyFloat_AsDouble(value);
  } else if (!DoubleValue(api, value, column, &number)) {
    return false;
  }
  *cell = Cell::Double(number);
  return true;
}

// numpy.bool_ and tensors of bool have no __index__, but they are 0.0 or 1.0.
bool ToBool(const PythonApi& api, PyObject* value, const ring::Column& column, Cell* cell) {
  double number = 0;
  if (value == api._Py_TrueStruct || value == api._Py_FalseStruct) {
    number = value == api._Py_TrueStruct ? 1 : 0;
  } else if (!DoubleValue(api, value, column, &number)) {
    return false;
  }
  if (number != 0 && number != 1)
    return Raise(api, *api.PyExc_ValueError, column, "takes True, False, 0 or 1");
  *cell = Cell::Bool(number != 0);
  return true;
}

bool NotTooLong(const PythonApi& api, const ring::Column& column, std::ptrdiff_t size) {
  if (static_cast<std::size_t>(size) <= ring::kMaxValueBytes) return true;
  return Raise(api, *api.PyExc_ValueError, column,
               "takes values of up to " + std::to_string(ring::kMaxValueBytes >> 20) + " MB, not of " +
                   std::to_string(size) + " bytes or more");
}

bool ToText(const PythonApi& api, PyObject* value, const ring::Column& column, Cell* cell,
            KeptObjects* kept) {
  if (api.TypeOf(value) != api.PyUnicode_Type &&
      api.PyType_IsSubtype(api.TypeOf(value), api.PyUnicode_Type) == 0) {
    return RaiseType(api, value, column);
  }
  // Before it is encoded, which makes a copy.
  std::ptrdiff_t size = api.PyUnicode_GetLength(value);
  if (!NotTooLong(api, column, size)) return false;
  const char* text = api.PyUnicode_AsUTF8AndSize(value, &size);
  if (text == nullptr) {  // half a character: shown, not lost
    api.PyErr_Clear();
    PyObject* encoded = api.PyUnicode_AsEncodedString(value, "utf-8", "backslashreplace");
    char* bytes = nullptr;
    if (encoded == nullptr || api.PyBytes_AsStringAndSize(encoded, &bytes, &size) != 0) return false;
    kept->Keep(encoded);
    text = bytes;
  }
  if (!NotTooLong(api, column, size)) return false;
  *cell = Cell::String({text, static_cast<std::size_t>(size)});
  return true;
}

bool ToBytes(const PythonApi& api, PyObject* value, const ring::Column& column, Cell* cell,
             KeptObjects* kept) {
  PyObject* bytes = value;
  if (api.TypeOf(value) != api.PyBytes_Type &&
      api.PyType_IsSubtype(api.TypeOf(value), api.PyBytes_Type) == 0) {
    bytes = api.PyBytes_FromObject(value);  // bytearray, memoryview
    if (bytes == nullptr) return RaiseType(api, value, column);
    kept->Keep(bytes);
  }
  char* data = nullptr;
  std::ptrdiff_t size = 0;
  if (api.PyBytes_AsStringAndSize(bytes, &data, &size) != 0) return false;
  if (!NotTooLong(api, column, size)) return false;
  *cell = Cell::Bytes({data, static_cast<std::size_t>(size)});
  return true;
}

}  // namespace

bool ToCell(const PythonApi& api, PyObject* value, const ring::Column& column, Cell* cell,
            KeptObjects* kept) {
  if (value == api._Py_NoneStruct) {
    *cell = Cell::Null();
    return true;
  }
  switch (column.type) {
    case ColumnType::kInt64:
    case ColumnType::kTimestamp:
      return ToInteger(api, value, column, cell);
    case ColumnType::kDouble:
      return ToDouble(api, value, column, cell);
    case ColumnType::kBool:
      return ToBool(api, value, column, cell);
    case ColumnType::kString:
      return ToText(api, value, column, cell, kept);
    case ColumnType::kBytes:
      return ToBytes(api, value, column, cell, kept);
  }
  return false;
}

namespace {

// ── a row from Python ──

constexpr int kFirstWithFastcall = 307;  // 3.6 has one that nobody was to use

const PythonApi* python = nullptr;  // set before the first append exists

bool RaiseTooMany(const record::TableHandle& table, std::ptrdiff_t count) {
  const std::string message = table.name() + " has " + std::to_string(table.columns().size()) + " columns; " +
                              std::to_string(count) + " values were given";
  python->PyErr_SetString(*python->PyExc_TypeError, message.c_str());
  return false;
}

// A hot path: no lock, and no allocation for values of the usual types.
PyObject* AppendValues(PyObject* self, PyObject* const* values, std::ptrdiff_t count) {
  const PythonApi& api = *python;
  auto* table = static_cast<record::TableHandle*>(FunctionData(api, self));
  const std::vector<ring::Column>& columns = table->columns();
  if (static_cast<std::size_t>(count) > columns.size()) {
    RaiseTooMany(*table, count);
    return nullptr;
  }
  ring::Cell cells[ring::kMaxColumns];
  KeptObjects kept(api);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    if (!ToCell(api, values[i], columns[static_cast<std::size_t>(i)], &cells[i], &kept)) return nullptr;
  }
  const ring::WriteStatus status = table->Write(cells, static_cast<std::uint32_t>(count));
  return NewBool(api, status == ring::WriteStatus::kWritten);
}

PyObject* AppendRow(PyObject* self, PyObject* const* values, std::ptrdiff_t count) {
  if (!record::Overhead::CountRow()) [[likely]]
    return AppendValues(self, values, count);
  const std::int64_t begun_ns = MonotonicNs();
  PyObject* answer = AppendValues(self, values, count);
  record::Overhead::AddTimedRow(MonotonicNs() - begun_ns);
  return answer;
}

PyObject* AppendTuple(PyObject* self, PyObject* arguments) {
  PyObject* values[ring::kMaxColumns];
  const std::ptrdiff_t count = python->PyTuple_Size(arguments);
  for (std::ptrdiff_t i = 0; i < std::min<std::ptrdiff_t>(count, ring::kMaxColumns); ++i) {
    values[i] = python->PyTuple_GetItem(arguments, i);
  }
  return AppendRow(self, values, count);
}

constexpr char kAppendDoc[] =
    "append(timestamp, *values) -> bool\n\nAdds a row; tells whether it was stored.";
PyMethodDef append_row{"append", reinterpret_cast<void*>(&AppendRow), kMethFastcall, kAppendDoc};
PyMethodDef append_tuple{"append", reinterpret_cast<void*>(&AppendTuple), kMethVarargs, kAppendDoc};

}  // namespace

PyObject* MakeAppend(const PythonApi& api, record::TableHandle* table) {
  python = &api;
  return MakeFunction(api, api.VersionNumber() >= kFirstWithFastcall ? &append_row : &append_tuple, table);
}

}  // namespace probing::pyapi
