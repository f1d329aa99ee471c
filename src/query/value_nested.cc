// Lists, structs, maps and unions as text, and every value as JSON.
#include <cmath>

#include "query/value.h"

namespace probing::query {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendEntry(std::string& out, const ColumnView& column, std::uint64_t row) {
  if (column.IsNull(row))
    out += "NULL";
  else
    column.AppendText(out, row);
}

// Rows of the child vector that belong to one list, array or map.
struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};
Range ChildRange(const ColumnView& column, std::uint64_t row) {
  if (column.type().id == DUCKDB_TYPE_ARRAY)
    return {row * column.type().array_size, (row + 1) * column.type().array_size};
  const auto& entry = column.at<duckdb_list_entry>(row);
  return {entry.offset, entry.offset + entry.length};
}

double RealValue(const ColumnView& column, std::uint64_t row) {
  return column.type().id == DUCKDB_TYPE_FLOAT ? column.at<float>(row) : column.at<double>(row);
}

}  // namespace

ColumnView ColumnView::Child(std::size_t index) const {
  switch (type_.id) {
    case DUCKDB_TYPE_LIST:
      return {api_, api_.list_vector_get_child(vector_), type_.children[0]};
    case DUCKDB_TYPE_ARRAY:
      return {api_, api_.array_vector_get_child(vector_), type_.children[0]};
    case DUCKDB_TYPE_MAP: {  // a list of structs of key and value
      duckdb_vector entries = api_.list_vector_get_child(vector_);
      return {api_, api_.struct_vector_get_child(entries, index), type_.children[index]};
    }
    case DUCKDB_TYPE_UNION:  // a struct whose first member is the tag
      return {api_, api_.struct_vector_get_child(vector_, index + 1), type_.children[index]};
    default:
      return {api_, api_.struct_vector_get_child(vector_, index), type_.children[index]};
  }
}

void ColumnView::AppendNestedText(std::string& out, std::uint64_t row) const {
  if (type_.id == DUCKDB_TYPE_STRUCT) {
    out += '{';
    for (std::size_t i = 0; i < type_.children.size(); ++i) {
      out += (i == 0 ? "'" : ", '") + type_.names[i] + "': ";
      AppendEntry(out, Child(i), row);
    }
    out += '}';
  } else if (type_.id == DUCKDB_TYPE_UNION) {
    const std::uint8_t tag =
        static_cast<const std::uint8_t*>(api_.vector_get_data(api_.struct_vector_get_child(vector_, 0)))[row];
    if (tag < type_.children.size()) AppendEntry(out, Child(tag), row);
  } else {
    const bool is_map = type_.id == DUCKDB_TYPE_MAP;
    const Range range = ChildRange(*this, row);
    const ColumnView first = Child(0);
    out += is_map ? '{' : '[';
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
      if (i > range.begin) out += ", ";
      AppendEntry(out, first, i);
      if (is_map) {
        out += '=';
        AppendEntry(out, Child(1), i);
      }
    }
    out += is_map ? '}' : ']';
  }
}

void AppendJsonString(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[static_cast<unsigned char>(c) & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void ColumnView::AppendNestedJson(std::string& out, std::uint64_t row) const {
  if (type_.id == DUCKDB_TYPE_STRUCT) {
    out += '{';
    for (std::size_t i = 0; i < type_.children.size(); ++i) {
      if (i > 0) out += ',';
      AppendJsonString(out, type_.names[i]);
      out += ':';
      Child(i).AppendJson(out, row);
    }
    out += '}';
  } else if (type_.id == DUCKDB_TYPE_UNION) {
    const std::uint8_t tag =
        static_cast<const std::uint8_t*>(api_.vector_get_data(api_.struct_vector_get_child(vector_, 0)))[row];
    if (tag < type_.children.size())
      Child(tag).AppendJson(out, row);
    else
      out += "null";
  } else if (type_.id == DUCKDB_TYPE_MAP) {
    const Range range = ChildRange(*this, row);
    out += '{';
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
      if (i > range.begin) out += ',';
      std::string key;
      AppendEntry(key, Child(0), i);
      AppendJsonString(out, key);
      out += ':';
      Child(1).AppendJson(out, i);
    }
    out += '}';
  } else {
    const Range range = ChildRange(*this, row);
    const ColumnView entries = Child(0);
    out += '[';
    for (std::uint64_t i = range.begin; i < range.end; ++i) {
      if (i > range.begin) out += ',';
      entries.AppendJson(out, i);
    }
    out += ']';
  }
}

void ColumnView::AppendJson(std::string& out, std::uint64_t row) const {
  if (IsNull(row)) {
    out += "null";
  } else if (type_.is_nested()) {
    AppendNestedJson(out, row);
  } else if (type_.id == DUCKDB_TYPE_FLOAT || type_.id == DUCKDB_TYPE_DOUBLE) {
    const double value = RealValue(*this, row);
    if (std::isfinite(value))
      AppendText(out, row);
    else
      out += std::isnan(value) ? "\"NaN\"" : value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  } else if (type_.id == DUCKDB_TYPE_BOOLEAN || type_.is_number() || type_.is_json) {
    AppendText(out, row);
  } else if (type_.id == DUCKDB_TYPE_VARCHAR) {
    AppendJsonString(out, bytes(row));
  } else {
    std::string text;
    AppendText(text, row);
    AppendJsonString(out, text);
  }
}

}  // namespace probing::query
