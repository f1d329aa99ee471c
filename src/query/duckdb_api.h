// DuckDB's C API, loaded at run time.
//
// libduckdb.so needs the system's libstdc++ and a newer glibc than the rest of probingd, and costs
// 15 ms to load: so it is opened only by the process that runs queries, never linked, and never
// with RTLD_GLOBAL (two DuckDBs in one process would find each other's symbols).
#pragma once

#include <duckdb.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace probing::query {

// The one list of what we call; the header's declarations give the types.
// clang-format off
#define PROBING_DUCKDB_FUNCTIONS(X)                                                              \
  /* database */                                                                                 \
  X(open_ext) X(close) X(connect) X(disconnect) X(interrupt) X(library_version)                  \
  X(create_config) X(set_config) X(destroy_config) X(free) X(execute_tasks)                      \
  /* statements and results */                                                                   \
  X(query) X(extract_statements) X(extract_statements_error) X(prepare_extracted_statement)      \
  X(destroy_extracted) X(prepare) X(prepare_error) X(destroy_prepare) X(prepared_statement_type) \
  X(nparams) X(bind_varchar_length) X(execute_prepared_streaming) X(fetch_chunk)                 \
  X(result_error) X(result_error_type) X(destroy_result) X(column_count)                         \
  X(column_name) X(column_logical_type)                                                          \
  X(get_table_names)                                                                             \
  /* chunks, vectors, types */                                                                   \
  X(data_chunk_get_size) X(data_chunk_set_size) X(data_chunk_get_vector)                         \
  X(create_data_chunk) X(destroy_data_chunk)                                                     \
  X(vector_get_data) X(vector_get_validity) X(vector_ensure_validity_writable)                   \
  X(vector_get_column_type) X(vector_reference_value) X(vector_reference_vector)                 \
  X(list_vector_get_child) X(struct_vector_get_child) X(array_vector_get_child)                  \
  X(create_logical_type) X(destroy_logical_type) X(get_type_id) X(logical_type_get_alias)        \
  X(decimal_scale) X(decimal_width) X(decimal_internal_type)                                     \
  X(enum_internal_type) X(enum_dictionary_value) X(enum_dictionary_size)                         \
  X(list_type_child_type) X(array_type_child_type) X(array_type_array_size)                      \
  X(map_type_key_type) X(map_type_value_type)                                                    \
  X(struct_type_child_count) X(struct_type_child_name) X(struct_type_child_type)                 \
  X(union_type_member_count) X(union_type_member_name) X(union_type_member_type)                 \
  /* values */                                                                                   \
  X(create_int64) X(create_bool) X(create_varchar_length) X(destroy_value)                       \
  X(get_varchar) X(get_bool) X(get_list_size) X(get_list_child)                                  \
  /* table functions */                                                                          \
  X(create_table_function) X(destroy_table_function) X(table_function_set_name)                  \
  X(table_function_add_parameter) X(table_function_set_extra_info) X(table_function_set_bind)    \
  X(table_function_set_init) X(table_function_set_local_init) X(table_function_set_function)     \
  X(table_function_supports_projection_pushdown) X(register_table_function)                      \
  X(bind_get_extra_info) X(bind_add_result_column) X(bind_get_parameter) X(bind_set_bind_data)   \
  X(bind_set_error) X(init_get_bind_data) X(init_set_init_data) X(init_get_column_count)         \
  X(init_get_column_index) X(init_set_max_threads) X(init_set_error)                             \
  X(function_get_init_data) X(function_get_local_init_data)                                      \
  X(function_set_error)                                                                          \
  /* names that are in no catalog */                                                             \
  X(add_replacement_scan) X(replacement_scan_set_function_name)                                  \
  X(replacement_scan_add_parameter)
// clang-format on

struct DuckDb {
#define PROBING_DECLARE(name) decltype(&duckdb_##name) name = nullptr;
  PROBING_DUCKDB_FUNCTIONS(PROBING_DECLARE)
#undef PROBING_DECLARE
};

// Where libduckdb.so is looked for: beside the executable, in ../lib/probing, in ../lib, then
// $PROBING_DUCKDB (a file). An installation's own library comes first, so that a variable in somebody's shell
// does not change what is loaded.
std::vector<std::string> DuckDbCandidates();

// Loads the library at the first call and keeps it. Thread-safe.
Result<const DuckDb*> LoadDuckDb();

// For callbacks, which only exist once it was loaded.
const DuckDb& LoadedDuckDb();

}  // namespace probing::query
