#include "query/value.h"

namespace probing::query {
namespace {

std::string TakeString(const DuckDb& api, char* text) {
  std::string result(text == nullptr ? "" : text);
  api.free(text);
  return result;
}

ValueType DescribeAndFree(const DuckDb& api, duckdb_logical_type type) {
  ValueType described = DescribeType(api, type);
  api.destroy_logical_type(&type);
  return described;
}

}  // namespace

ValueType DescribeType(const DuckDb& api, duckdb_logical_type type) {
  ValueType described;
  described.id = api.get_type_id(type);
  switch (described.id) {
    case DUCKDB_TYPE_VARCHAR:
      described.is_json = TakeString(api, api.logical_type_get_alias(type)) == "JSON";
      break;
    case DUCKDB_TYPE_DECIMAL:
      described.stored_as = api.decimal_internal_type(type);
      described.width = api.decimal_width(type);
      described.scale = api.decimal_scale(type);
      break;
    case DUCKDB_TYPE_ENUM:
      described.stored_as = api.enum_internal_type(type);
      for (std::uint32_t i = 0; i < api.enum_dictionary_size(type); ++i)
        described.names.push_back(TakeString(api, api.enum_dictionary_value(type, i)));
      break;
    case DUCKDB_TYPE_LIST:
      described.children.push_back(DescribeAndFree(api, api.list_type_child_type(type)));
      break;
    case DUCKDB_TYPE_ARRAY:
      described.children.push_back(DescribeAndFree(api, api.array_type_child_type(type)));
      described.array_size = api.array_type_array_size(type);
      break;
    case DUCKDB_TYPE_MAP:
      described.children.push_back(DescribeAndFree(api, api.map_type_key_type(type)));
      described.children.push_back(DescribeAndFree(api, api.map_type_value_type(type)));
      break;
    case DUCKDB_TYPE_STRUCT:
      for (idx_t i = 0; i < api.struct_type_child_count(type); ++i) {
        described.children.push_back(DescribeAndFree(api, api.struct_type_child_type(type, i)));
        described.names.push_back(TakeString(api, api.struct_type_child_name(type, i)));
      }
      break;
    case DUCKDB_TYPE_UNION:
      for (idx_t i = 0; i < api.union_type_member_count(type); ++i) {
        described.children.push_back(DescribeAndFree(api, api.union_type_member_type(type, i)));
        described.names.push_back(TakeString(api, api.union_type_member_name(type, i)));
      }
      break;
    default:
      break;
  }
  return described;
}

bool ValueType::is_number() const {
  switch (id) {
    case DUCKDB_TYPE_TINYINT:
    case DUCKDB_TYPE_SMALLINT:
    case DUCKDB_TYPE_INTEGER:
    case DUCKDB_TYPE_BIGINT:
    case DUCKDB_TYPE_UTINYINT:
    case DUCKDB_TYPE_USMALLINT:
    case DUCKDB_TYPE_UINTEGER:
    case DUCKDB_TYPE_UBIGINT:
    case DUCKDB_TYPE_FLOAT:
    case DUCKDB_TYPE_DOUBLE:
    case DUCKDB_TYPE_HUGEINT:
    case DUCKDB_TYPE_UHUGEINT:
    case DUCKDB_TYPE_DECIMAL:
      return true;
    default:
      return false;
  }
}

}  // namespace probing::query
