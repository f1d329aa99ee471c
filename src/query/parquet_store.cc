#include "query/parquet_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "query/duckdb_api.h"
#include "query/handles.h"
#include "query/scan_function.h"
#include "query/schema.h"
#include "table/registry.h"

namespace probing::query {
namespace {

using table::kBatchRows;
using table::Type;

constexpr char kFunction[] = "probing_rows";
constexpr char kCopyOptions[] =
    " (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false, OVERWRITE_OR_IGNORE true)";

std::string PathOf(const ScopedFd& file) { return QuoteText("/proc/self/fd/" + std::to_string(file.get())); }

duckdb_type StoredType(Type type) {
  return type == Type::kTimestamp ? DUCKDB_TYPE_TIMESTAMP_NS : EngineType(type);
}

const char* StoredTypeName(Type type) {
  return type == Type::kTimestamp ? "TIMESTAMP_NS" : table::SqlTypeName(type);
}

std::optional<Type> OurType(duckdb_type type) {
  for (const Type ours :
       {Type::kInt64, Type::kDouble, Type::kBool, Type::kString, Type::kBytes, Type::kTimestamp}) {
    if (StoredType(ours) == type) return ours;
  }
  return std::nullopt;
}

// What is being written: one at a time.
struct Feed {
  const std::vector<FileColumn>* columns;
  table::Cursor* rows;
  std::vector<std::array<std::uint64_t, kBatchRows / 64>> validity;
};
thread_local Feed* t_feed = nullptr;  // found by Bind, which runs on the thread that calls COPY

void Bind(duckdb_bind_info info) noexcept {
  const DuckDb& api = LoadedDuckDb();
  if (t_feed == nullptr) {
    api.bind_set_error(info, "there are no rows");
    return;
  }
  for (const FileColumn& column : *t_feed->columns) {
    duckdb_logical_type type = api.create_logical_type(StoredType(column.type));
    api.bind_add_result_column(info, column.name.c_str(), type);
    api.destroy_logical_type(&type);
  }
  api.bind_set_bind_data(info, t_feed, nullptr);
}

void Init(duckdb_init_info info) noexcept {
  const DuckDb& api = LoadedDuckDb();
  api.init_set_max_threads(info, 1);  // rows stay in their order
  api.init_set_init_data(info, api.init_get_bind_data(info), nullptr);
}

void Fill(duckdb_function_info info, duckdb_data_chunk chunk) {
  const DuckDb& api = LoadedDuckDb();
  Feed& feed = *static_cast<Feed*>(api.function_get_init_data(info));
  std::vector<table::ColumnOut> columns;
  for (std::size_t i = 0; i < feed.validity.size(); ++i) {
    feed.validity[i].fill(~std::uint64_t{0});
    columns.emplace_back(api.vector_get_data(api.data_chunk_get_vector(chunk, i)), feed.validity[i].data());
  }
  const Result<std::size_t> count = feed.rows->Next(columns);
  if (!count.ok()) {
    api.function_set_error(info, count.error().message.c_str());
    return;
  }
  for (std::size_t i = 0; i < feed.validity.size(); ++i) {
    if (std::ranges::all_of(feed.validity[i], [](std::uint64_t word) { return word == ~std::uint64_t{0}; }))
      continue;
    duckdb_vector vector = api.data_chunk_get_vector(chunk, i);
    api.vector_ensure_validity_writable(vector);
    std::memcpy(api.vector_get_validity(vector), feed.validity[i].data(), sizeof(feed.validity[i]));
  }
  api.data_chunk_set_size(chunk, *count);
}

void FillBarrier(duckdb_function_info info, duckdb_data_chunk chunk) noexcept {
  try {
    Fill(info, chunk);
  } catch (...) {
    LoadedDuckDb().function_set_error(info, "out of memory");
  }
}

// A connection of one's own.
class Connection {
 public:
  Connection(const DuckDb& api, duckdb_database database) : api_(api) { api.connect(database, &value_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (value_ != nullptr) api_.disconnect(&value_);
  }
  duckdb_connection get() const { return value_; }

 private:
  const DuckDb& api_;
  duckdb_connection value_ = nullptr;
};

Error Unreadable(const char* message) {
  const std::string_view text = message == nullptr ? std::string_view("no reason") : message;
  return Error{Code::kFailed,
               "a history file cannot be read: " + std::string(text.substr(0, text.find('\n'))), ""};
}

void CopyColumn(const DuckDb& api, duckdb_vector from, Type type, std::size_t count, table::ColumnOut& to) {
  const void* data = api.vector_get_data(from);
  const std::size_t size = type == Type::kBool                             ? 1
                           : type == Type::kString || type == Type::kBytes ? sizeof(table::Text)
                                                                           : 8;
  std::memcpy(to.values<char>(), data, count * size);
  const std::uint64_t* validity = api.vector_get_validity(from);
  if (validity == nullptr) return;
  for (std::size_t row = 0; row < count; ++row) {
    if ((validity[row / 64] >> (row % 64) & 1) == 0) to.SetNull(row);
  }
}

}  // namespace

class ParquetStore::Impl {
 public:
  explicit Impl(const DuckDb& api) : api_(api) {}
  ~Impl() {
    if (database_ != nullptr) api_.close(&database_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> Open(std::int64_t memory_bytes) {
    RETURN_IF_ERROR(OpenDatabase(api_, memory_bytes, 1, &database_));
    const Connection connection(api_, database_);
    for (const char* statement : {
             "SET temp_directory = ''",
             "SET autoinstall_known_extensions = false",
             "SET autoload_known_extensions = false",
             // It would know files by names, and the names of our descriptors return.
             "SET enable_external_file_cache = false",
         }) {
      RETURN_IF_ERROR(RunOwn(api_, connection.get(), statement));
    }
    duckdb_table_function function = api_.create_table_function();
    api_.table_function_set_name(function, kFunction);
    api_.table_function_set_bind(function, Bind);
    api_.table_function_set_init(function, Init);
    api_.table_function_set_function(function, FillBarrier);
    const duckdb_state registered = api_.register_table_function(connection.get(), function);
    api_.destroy_table_function(&function);
    if (registered != DuckDBSuccess) return Error{Code::kFailed, "DuckDB refused our table function", ""};
    return {};
  }

  Result<void> Run(const std::string& sql) {
    const Connection connection(api_, database_);
    return RunOwn(api_, connection.get(), sql);
  }

  const DuckDb& api() const { return api_; }
  duckdb_database database() const { return database_; }

 private:
  const DuckDb& api_;
  duckdb_database database_ = nullptr;
};

namespace {

Result<std::vector<FileColumn>> ReadColumns(const DuckDb& api, duckdb_connection connection,
                                            const ScopedFd& file, bool all_types) {
  ResultHandle result;
  const std::string sql = "SELECT * FROM read_parquet(" + PathOf(file) + ") LIMIT 0";
  if (api.query(connection, sql.c_str(), &result.value) != DuckDBSuccess)
    return Unreadable(api.result_error(&result.value));
  std::vector<FileColumn> columns;
  for (idx_t i = 0; i < api.column_count(&result.value); ++i) {
    duckdb_logical_type type = api.column_logical_type(&result.value, i);
    const std::optional<Type> ours = OurType(api.get_type_id(type));
    api.destroy_logical_type(&type);
    // What has another type must be converted in any case.
    if (ours || all_types)
      columns.push_back({api.column_name(&result.value, i), ours.value_or(Type::kBytes)});
  }
  return columns;
}

class FileCursor : public table::Cursor {
 public:
  FileCursor(const DuckDb& api, duckdb_database database, ScopedFd file)
      : api_(api), file_(std::move(file)), connection_(api, database) {}
  ~FileCursor() override {
    if (chunk_ != nullptr) api_.destroy_data_chunk(&chunk_);
  }

  Result<void> Start(const table::Table& table, const std::vector<std::size_t>& wanted,
                     table::TimeRange time) {
    ASSIGN_OR_RETURN(const std::vector<FileColumn> columns,
                     ReadColumns(api_, connection_.get(), file_, true));
    const auto find = [&](std::string_view name) {
      return std::ranges::find_if(
          columns, [&](const FileColumn& column) { return LowerCase(column.name) == LowerCase(name); });
    };
    std::string list;
    for (const std::size_t index : wanted) {
      const table::Column& column = table.columns[index];
      types_.push_back(column.type);
      const auto found = find(column.name);
      const std::string name = found == columns.end() ? "NULL" : QuoteName(found->name);
      const bool is_same =
          found != columns.end() && found->type == column.type && column.type != Type::kBytes;
      list += (list.empty() ? "" : ", ") +
              (is_same ? name : "TRY_CAST(" + name + " AS " + StoredTypeName(column.type) + ")");
    }
    std::string sql = "SELECT " + (list.empty() ? "1" : list) + " FROM read_parquet(" + PathOf(file_) + ")";
    const auto timestamp = find("timestamp");
    if (table::IsSeries(table) && timestamp != columns.end() && timestamp->type == Type::kTimestamp) {
      if (time.from_ns != INT64_MIN)
        sql += " WHERE \"timestamp\" >= make_timestamp_ns(" + std::to_string(time.from_ns) + ")";
      if (time.to_ns != INT64_MAX) {
        sql += time.from_ns != INT64_MIN ? " AND " : " WHERE ";
        sql += "\"timestamp\" <= make_timestamp_ns(" + std::to_string(time.to_ns) + ")";
      }
    }
    if (api_.prepare(connection_.get(), sql.c_str(), &prepared_.value) != DuckDBSuccess)
      return Unreadable(api_.prepare_error(prepared_.value));
    if (api_.execute_prepared_streaming(prepared_.value, &result_.value) != DuckDBSuccess)
      return Unreadable(api_.result_error(&result_.value));
    return {};
  }

  Result<std::size_t> Next(std::span<table::ColumnOut> columns) override {
    if (chunk_ != nullptr) api_.destroy_data_chunk(&chunk_);
    chunk_ = api_.fetch_chunk(result_.value);
    const std::size_t count = chunk_ == nullptr ? 0 : api_.data_chunk_get_size(chunk_);
    if (count == 0) {
      const char* problem = api_.result_error(&result_.value);
      if (problem != nullptr && *problem != '\0') return Unreadable(problem);
      return std::size_t{0};
    }
    for (std::size_t i = 0; i < columns.size(); ++i)
      CopyColumn(api_, api_.data_chunk_get_vector(chunk_, i), types_[i], count, columns[i]);
    return count;
  }

 private:
  const DuckDb& api_;
  ScopedFd file_;
  Connection connection_;
  PreparedHandle prepared_;
  ResultHandle result_;
  std::vector<Type> types_;
  duckdb_data_chunk chunk_ = nullptr;  // strings of the last batch lie here
};

}  // namespace

ParquetStore::ParquetStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ParquetStore::~ParquetStore() = default;

Result<std::unique_ptr<ParquetStore>> ParquetStore::Open(std::int64_t memory_bytes) {
  ASSIGN_OR_RETURN(const DuckDb* api, LoadDuckDb());
  auto impl = std::make_unique<Impl>(*api);
  RETURN_IF_ERROR(impl->Open(memory_bytes));
  return std::unique_ptr<ParquetStore>(new ParquetStore(std::move(impl)));
}

Result<void> ParquetStore::Write(const ScopedFd& file, const std::vector<FileColumn>& columns,
                                 table::Cursor& rows) {
  Feed feed{&columns, &rows, {}};
  feed.validity.resize(columns.size());
  t_feed = &feed;
  const Result<void> written =
      impl_->Run(std::string("COPY (SELECT * FROM ") + kFunction + "()) TO " + PathOf(file) + kCopyOptions);
  t_feed = nullptr;
  return written;
}

Result<void> ParquetStore::Merge(const std::vector<ScopedFd>& files, const ScopedFd& into) {
  std::string list;
  for (const ScopedFd& file : files) list += (list.empty() ? "" : ", ") + PathOf(file);
  return impl_->Run("COPY (SELECT * FROM read_parquet([" + list + "], union_by_name = true)) TO " +
                    PathOf(into) + kCopyOptions);
}

Result<std::vector<FileColumn>> ParquetStore::Columns(const ScopedFd& file) {
  const Connection connection(impl_->api(), impl_->database());
  return ReadColumns(impl_->api(), connection.get(), file, false);
}

Result<std::unique_ptr<table::Cursor>> ParquetStore::Read(ScopedFd file, const table::Table& table,
                                                          const std::vector<std::size_t>& columns,
                                                          table::TimeRange time) {
  auto cursor = std::make_unique<FileCursor>(impl_->api(), impl_->database(), std::move(file));
  RETURN_IF_ERROR(cursor->Start(table, columns, time));
  return std::unique_ptr<table::Cursor>(std::move(cursor));
}

}  // namespace probing::query
