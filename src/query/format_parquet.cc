// A Parquet file, written by DuckDB itself into a memory file: COPY from a table function that
// hands out the chunks of the result. The one path that the locked engine may write is that file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "query/format.h"
#include "query/handles.h"
#include "query/schema.h"

namespace probing::query {
namespace {

constexpr char kFunction[] = "probing_result";

// The result that is being written: one at a time, as everything in an engine.
struct Held {
  std::vector<std::string> names;
  std::vector<duckdb_logical_type> types;
  std::vector<duckdb_data_chunk> chunks;
  std::size_t next = 0;

  ~Held() {
    for (duckdb_logical_type& type : types) LoadedDuckDb().destroy_logical_type(&type);
    for (duckdb_data_chunk& chunk : chunks) LoadedDuckDb().destroy_data_chunk(&chunk);
  }
};
thread_local Held* t_held = nullptr;  // found by Bind, which runs on the thread that calls COPY

void Bind(duckdb_bind_info info) noexcept {
  const DuckDb& api = LoadedDuckDb();
  if (t_held == nullptr) {
    api.bind_set_error(info, "there is no result");
    return;
  }
  for (std::size_t i = 0; i < t_held->types.size(); ++i)
    api.bind_add_result_column(info, t_held->names[i].c_str(), t_held->types[i]);
  api.bind_set_bind_data(info, t_held, nullptr);
}

void Init(duckdb_init_info info) noexcept {
  const DuckDb& api = LoadedDuckDb();
  api.init_set_max_threads(info, 1);  // rows stay in their order
  api.init_set_init_data(info, api.init_get_bind_data(info), nullptr);
}

void Next(duckdb_function_info info, duckdb_data_chunk output) noexcept {
  const DuckDb& api = LoadedDuckDb();
  Held& held = *static_cast<Held*>(api.function_get_init_data(info));
  if (held.next == held.chunks.size()) {
    api.data_chunk_set_size(output, 0);
    return;
  }
  duckdb_data_chunk chunk = held.chunks[held.next++];
  for (std::size_t i = 0; i < held.types.size(); ++i)
    api.vector_reference_vector(api.data_chunk_get_vector(output, i), api.data_chunk_get_vector(chunk, i));
  api.data_chunk_set_size(output, api.data_chunk_get_size(chunk));
}

class ParquetWriter : public FormatWriter {
 public:
  ParquetWriter(Engine& engine, Output output)
      : engine_(engine), api_(engine.api()), output_(std::move(output)) {}

  Result<void> Begin(duckdb_result& result) override {
    for (idx_t i = 0; i < api_.column_count(&result); ++i) {
      held_.names.push_back(UniqueName(api_.column_name(&result, i)));
      held_.types.push_back(api_.column_logical_type(&result, i));
    }
    return {};
  }

  // Keeps the values, which chunks share, and not the chunk.
  Result<void> Write(duckdb_data_chunk chunk) override {
    duckdb_data_chunk copy = api_.create_data_chunk(held_.types.data(), held_.types.size());
    held_.chunks.push_back(copy);
    for (std::size_t i = 0; i < held_.types.size(); ++i)
      api_.vector_reference_vector(api_.data_chunk_get_vector(copy, i), api_.data_chunk_get_vector(chunk, i));
    api_.data_chunk_set_size(copy, api_.data_chunk_get_size(chunk));
    return {};
  }

  Result<void> End() override {
    const ScopedFd& file = engine_.writable_file();
    if (!file.valid()) return Error{Code::kFailed, "there is no room for a Parquet file", ""};
    t_held = &held_;
    const Result<void> copied = Copy();
    t_held = nullptr;
    if (copied.ok()) RETURN_IF_ERROR(SendFile(file.get()));
    (void)!ftruncate(file.get(), 0);
    return copied;
  }

 private:
  Result<void> Copy() {
    duckdb_connection connection = nullptr;
    if (api_.connect(engine_.database(), &connection) != DuckDBSuccess)
      return Error{Code::kFailed, "cannot connect to DuckDB", ""};
    const Result<void> copied =
        RunOwn(api_, connection,
               "COPY (SELECT " + SelectList() + " FROM " + kFunction + "()) TO " +
                   QuoteText(engine_.writable_path()) +
                   " (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, OVERWRITE_OR_IGNORE true)");
    api_.disconnect(&connection);
    return copied;
  }

  // Parquet has no integer of 128 bits, which a sum is; DuckDB would make it a double and lose digits.
  std::string SelectList() const {
    std::string list;
    for (std::size_t i = 0; i < held_.names.size(); ++i) {
      const std::string name = QuoteName(held_.names[i]);
      const bool is_wide = api_.get_type_id(held_.types[i]) == DUCKDB_TYPE_HUGEINT;
      list += (i == 0 ? "" : ", ") + (is_wide ? name + "::DECIMAL(38, 0) AS " + name : name);
    }
    return list;
  }

  Result<void> SendFile(int fd) {
    std::string part(1 << 20, '\0');
    for (off_t at = 0;;) {
      const ssize_t got = pread(fd, part.data(), part.size(), at);
      if (got < 0) return ErrnoError("read the Parquet file");
      if (got == 0) return {};
      RETURN_IF_ERROR(output_({part.data(), static_cast<std::size_t>(got)}));
      at += got;
    }
  }

  std::string UniqueName(std::string name) const {
    std::string unique = name;
    for (int i = 2; std::ranges::find(held_.names, unique) != held_.names.end(); ++i)
      unique = name + "_" + std::to_string(i);
    return unique;
  }

  Engine& engine_;
  const DuckDb& api_;
  Output output_;
  Held held_;
};

}  // namespace

Result<void> RegisterResultFunction(const DuckDb& api, duckdb_connection connection) {
  duckdb_table_function function = api.create_table_function();
  api.table_function_set_name(function, kFunction);
  api.table_function_set_bind(function, Bind);
  api.table_function_set_init(function, Init);
  api.table_function_set_function(function, Next);
  const duckdb_state state = api.register_table_function(connection, function);
  api.destroy_table_function(&function);
  if (state != DuckDBSuccess) return Error{Code::kFailed, "DuckDB refused our table function", ""};
  return {};
}

std::unique_ptr<FormatWriter> MakeParquetWriter(Engine& engine, Output output) {
  return std::make_unique<ParquetWriter>(engine, std::move(output));
}

}  // namespace probing::query
