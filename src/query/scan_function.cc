#include "query/scan_function.h"

#include <algorithm>

#include "base/text.h"
#include "query/scan_rows.h"
#include "table/registry.h"

namespace probing::query {
namespace {

using table::kBatchRows;
using table::Type;

constexpr char kQueriesOnly[] = "tables can be read by queries only";

// Outlives the query that it was made for: what may be seen is asked when the scan starts.
struct BindData {
  const ScanCatalog* catalog = nullptr;
  std::shared_ptr<table::Source> source;
  bool everywhere = false;
  std::vector<table::Column> columns;  // as SQL sees them
};

template <typename T>
void Delete(void* pointer) {
  delete static_cast<T*>(pointer);
}

void Bind(duckdb_bind_info info) {
  const DuckDb& api = LoadedDuckDb();
  ScanCatalog& catalog = *static_cast<ScanCatalog*>(api.bind_get_extra_info(info));
  duckdb_value name_value = api.bind_get_parameter(info, 0);
  duckdb_value everywhere = api.bind_get_parameter(info, 1);
  char* name = api.get_varchar(name_value);
  auto data = std::make_unique<BindData>();
  data->everywhere = api.get_bool(everywhere);
  data->source = catalog.Find(name == nullptr ? "" : name);
  data->catalog = &catalog;
  const std::string problem = name == nullptr              ? "probing_scan needs the name of a table"
                              : data->source == nullptr    ? "there is no table " + std::string(name)
                              : catalog.scope() == nullptr ? kQueriesOnly
                                                           : "";
  api.free(name);
  api.destroy_value(&name_value);
  api.destroy_value(&everywhere);
  if (!problem.empty()) {
    api.bind_set_error(info, problem.c_str());
    return;
  }
  catalog.CountScan(data->source->table().name);
  data->columns = table::SqlColumns(data->source->table());
  for (const table::Column& column : data->columns) {
    duckdb_logical_type type = api.create_logical_type(EngineType(column.type));
    api.bind_add_result_column(info, std::string(column.name).c_str(), type);
    api.destroy_logical_type(&type);
  }
  api.bind_set_bind_data(info, data.release(), Delete<BindData>);
}

OutputColumn PlanColumn(const BindData& data, idx_t index, table::ScanRequest& request) {
  using enum OutputColumn::From;
  // `count(*)` asks for a column that does not exist: only the number of rows matters.
  if (index >= data.columns.size()) return {kNothing};
  const table::Table& table = data.source->table();
  std::size_t own = index;
  bool to_microseconds = false;
  if (index >= table.columns.size()) {
    const std::string_view name = data.columns[index].name;
    if (name == "pid") return {kPid};
    if (name == "rank") return {kRank};
    if (name == "host") return {kHost};
    if (name == "job") return {kJob};
    own = 0;  // timestamp_ns
  } else {
    to_microseconds = table.columns[index].type == Type::kTimestamp;
  }
  request.columns.push_back(own);
  return {kSource, to_microseconds};
}

// The rows of other hosts, for `global`. Rows about a host are those of the host that is asked.
Result<void> Gather(const BindData& data, const std::vector<idx_t>& indexes, const table::TimeRange& time,
                    ScanState& state) {
  const table::Table& table = data.source->table();
  if (!data.everywhere || !state.scope->gather || table.about == table::About::kHost) return {};
  GatherRequest request{.table = state.table, .columns = {}, .time = time};
  request.is_stored = table.kind == table::Kind::kStored;
  request.is_rehearsal = state.scope->is_rehearsal;
  std::vector<Type> types;
  for (const idx_t index : indexes) {
    if (index >= data.columns.size()) continue;
    const table::Column& column = data.columns[index];
    request.columns.push_back({std::string(column.name), column.type});
    types.push_back(column.type);
  }
  ASSIGN_OR_RETURN(std::vector<std::string> texts, state.scope->gather(request));
  for (std::string& text : texts) {
    ASSIGN_OR_RETURN(GatheredRows rows, GatheredRows::Parse(std::move(text), types));
    state.gathered.push_back(std::make_shared<const GatheredRows>(std::move(rows)));
  }
  return {};
}

void Init(duckdb_init_info info) {
  const DuckDb& api = LoadedDuckDb();
  const auto& data = *static_cast<const BindData*>(api.init_get_bind_data(info));
  auto state = std::make_unique<ScanState>();
  state->scope = data.catalog->scope();
  if (state->scope == nullptr) return api.init_set_error(info, kQueriesOnly);
  const Scope& scope = *state->scope;
  state->table = data.source->table().name;
  table::ScanRequest request;
  std::vector<idx_t> indexes(api.init_get_column_count(info));
  for (idx_t i = 0; i < indexes.size(); ++i) {
    indexes[i] = api.init_get_column_index(info, i);
    state->outputs.push_back(PlanColumn(data, indexes[i], request));
  }
  for (const table::Target& target : scope.targets) {
    if (data.everywhere || target.selected) request.targets.push_back(&target);
  }
  request.history = scope.history;
  request.is_recorded = scope.is_recorded;
  if (request.history && data.everywhere) {
    request.history->pid.reset();
    request.history->job.reset();
  }
  if (const auto time = scope.time.find(state->table); time != scope.time.end()) request.time = time->second;
  if (!scope.is_rehearsal) {
    Result<std::vector<table::Part>> parts = data.source->Parts(request);
    if (!parts.ok()) {
      state->scope->source_failed = true;
      api.init_set_error(info, (state->table + ": " + parts.error().message).c_str());
      return;
    }
    state->parts = std::move(*parts);
  }
  if (const Result<void> gathered = Gather(data, indexes, request.time, *state); !gathered.ok()) {
    const Error& error = gathered.error();
    state->scope->source_failed = true;
    api.init_set_error(info, (error.message + (error.hint.empty() ? "" : "\n" + error.hint)).c_str());
    return;
  }
  const std::size_t pieces = state->parts.size() + state->gathered.size();
  api.init_set_max_threads(info, std::max<std::size_t>(1, pieces));
  api.init_set_init_data(info, state.release(), Delete<ScanState>);
}

void InitThread(duckdb_init_info info) {
  const DuckDb& api = LoadedDuckDb();
  api.init_set_init_data(info, new ThreadState, Delete<ThreadState>);
}

void Scan(duckdb_function_info info, duckdb_data_chunk chunk) {
  const DuckDb& api = LoadedDuckDb();
  auto& scan = *static_cast<ScanState*>(api.function_get_init_data(info));
  auto& mine = *static_cast<ThreadState*>(api.function_get_local_init_data(info));
  const Result<std::size_t> count = FillChunk(api, scan, mine, chunk);
  if (count.ok()) return PutBatch(api, scan, mine, chunk, *count);
  const Error& error = count.error();
  scan.scope->source_failed = true;
  const std::string text = scan.table + ": " + error.message + (error.hint.empty() ? "" : "\n" + error.hint);
  api.function_set_error(info, text.c_str());
}

// `system` is a catalog of DuckDB's own, so a schema of that name would be ambiguous. It has no
// tables called like ours, and what it does not find comes here, with its last name only.
void ReplaceSystemTable(duckdb_replacement_scan_info info, const char* name, void* data) {
  auto& catalog = *static_cast<ScanCatalog*>(data);
  const std::string last_name = LowerCase(name);
  const std::string full_name = "system." + last_name;
  if (catalog.Find(full_name) == nullptr) return;
  catalog.by_last_name().insert(last_name);
  const DuckDb& api = LoadedDuckDb();
  api.replacement_scan_set_function_name(info, "probing_scan");
  duckdb_value parameters[] = {api.create_varchar_length(full_name.data(), full_name.size()),
                               api.create_bool(false)};
  for (duckdb_value& value : parameters) {
    api.replacement_scan_add_parameter(info, value);
    api.destroy_value(&value);
  }
}

// DuckDB was built with another C++ library: an exception must not reach it. Memory is the one
// thing that can run out here.
constexpr char kOutOfMemory[] = "out of memory while reading a table";

void BindBarrier(duckdb_bind_info info) noexcept {
  try {
    Bind(info);
  } catch (...) {
    LoadedDuckDb().bind_set_error(info, kOutOfMemory);
  }
}
void InitBarrier(duckdb_init_info info) noexcept {
  try {
    Init(info);
  } catch (...) {
    LoadedDuckDb().init_set_error(info, kOutOfMemory);
  }
}
void InitThreadBarrier(duckdb_init_info info) noexcept {
  try {
    InitThread(info);
  } catch (...) {
    LoadedDuckDb().init_set_error(info, kOutOfMemory);
  }
}
void ScanBarrier(duckdb_function_info info, duckdb_data_chunk chunk) noexcept {
  try {
    Scan(info, chunk);
  } catch (...) {
    LoadedDuckDb().function_set_error(info, kOutOfMemory);
  }
}
void ReplaceBarrier(duckdb_replacement_scan_info info, const char* name, void* data) noexcept {
  try {
    ReplaceSystemTable(info, name, data);
  } catch (...) {  // the table is not found
  }
}

}  // namespace

duckdb_type EngineType(Type type) {
  switch (type) {
    case Type::kInt64:
      return DUCKDB_TYPE_BIGINT;
    case Type::kDouble:
      return DUCKDB_TYPE_DOUBLE;
    case Type::kBool:
      return DUCKDB_TYPE_BOOLEAN;
    case Type::kString:
      return DUCKDB_TYPE_VARCHAR;
    case Type::kBytes:
      return DUCKDB_TYPE_BLOB;
    case Type::kTimestamp:
      return DUCKDB_TYPE_TIMESTAMP_TZ;
  }
  return DUCKDB_TYPE_INVALID;
}

Result<void> RegisterScan(const DuckDb& api, duckdb_database database, duckdb_connection connection,
                          ScanCatalog& catalog) {
  duckdb_table_function function = api.create_table_function();
  api.table_function_set_name(function, "probing_scan");
  for (const duckdb_type id : {DUCKDB_TYPE_VARCHAR, DUCKDB_TYPE_BOOLEAN}) {
    duckdb_logical_type type = api.create_logical_type(id);
    api.table_function_add_parameter(function, type);
    api.destroy_logical_type(&type);
  }
  api.table_function_set_extra_info(function, &catalog, nullptr);
  api.table_function_set_bind(function, BindBarrier);
  api.table_function_set_init(function, InitBarrier);
  api.table_function_set_local_init(function, InitThreadBarrier);
  api.table_function_set_function(function, ScanBarrier);
  api.table_function_supports_projection_pushdown(function, true);
  const duckdb_state state = api.register_table_function(connection, function);
  api.destroy_table_function(&function);
  if (state != DuckDBSuccess) return Error{Code::kFailed, "DuckDB refused our table function", ""};
  api.add_replacement_scan(database, ReplaceBarrier, &catalog, nullptr);
  return {};
}

}  // namespace probing::query
