#include "query/engine.h"

#include <linux/memfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.h"
#include "query/handles.h"
#include "query/own_sources.h"
#include "query/schema.h"
#include "query/sql_mistake.h"
#include "query/statement.h"
#include "query/time_pruning.h"
#include "query/user_views.h"
#include "table/registry.h"
#include "table/ring_source.h"

namespace probing::query {
namespace {

constexpr std::size_t kMaxSqlBytes = 1 << 20;
constexpr int kThreads = 2;  // the one that asks, and the helper

// What the engine may do is decided before anybody's SQL is seen. The order matters: the path that
// may be written has to be named before access to files is given up.
std::vector<std::string> LockDown(const std::string& writable_path) {
  std::vector<std::string> statements{
      "SET TimeZone = 'UTC'",
      "SET temp_directory = ''",
      "SET max_temp_directory_size = '0KB'",
      "SET autoinstall_known_extensions = false",
      "SET autoload_known_extensions = false",
      "SET allow_community_extensions = false",
  };
  statements.push_back("SET allowed_paths = [" + QuoteText(writable_path) + "]");
  statements.emplace_back("SET enable_external_access = false");
  return statements;
}

// DuckDB's own SHOW TABLES knows the schema `main` only, where three of our tables are.
const std::string kShowTables =
    "SELECT table_name AS name, kind, doc FROM probing.tables ORDER BY table_name";

bool IsShowTables(std::string_view sql) {
  std::string words;
  for (const char c : sql) {
    const bool is_space = std::isspace(static_cast<unsigned char>(c)) != 0 || c == ';';
    if (!is_space)
      words += Lower(c);
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  }
  return words == "show tables" || words == "show tables ";
}

bool ContainsIgnoringCase(std::string_view text, std::string_view word) {
  return !std::ranges::search(text, word, {}, Lower).empty();
}

}  // namespace

Engine::Engine(const DuckDb& api, EngineOptions options)
    : api_(api), options_(std::move(options)), history_(options_.memory_bytes / 2) {}

Engine::~Engine() {
  helper_.reset();
  timer_.reset();
  kept_.Clear();
  functions_.reset();
  if (connection_ != nullptr) api_.disconnect(&connection_);
  if (database_ != nullptr) api_.close(&database_);
}

Result<std::unique_ptr<Engine>> Engine::Open(EngineOptions options) {
  ASSIGN_OR_RETURN(const DuckDb* api, LoadDuckDb());
  std::unique_ptr<Engine> engine(new Engine(*api, std::move(options)));
  RETURN_IF_ERROR(engine->Prepare());
  return engine;
}

Result<void> Engine::Prepare() {
  writable_file_.Reset(static_cast<int>(syscall(SYS_memfd_create, "probing-parquet", MFD_CLOEXEC)));
  RETURN_IF_ERROR(OpenDatabase(api_, options_.memory_bytes, kThreads, &database_));
  if (api_.connect(database_, &connection_) != DuckDBSuccess)
    return Error{Code::kFailed, "cannot connect to DuckDB", ""};
  helper_.emplace(api_, database_);
  timer_.emplace(api_, connection_);
  RETURN_IF_ERROR(RegisterScan(api_, database_, connection_, catalog_));
  RETURN_IF_ERROR(RegisterResultFunction(api_, connection_));
  RETURN_IF_ERROR(CreateTables());
  for (const std::string& statement : LockDown(writable_path()))
    RETURN_IF_ERROR(RunOwn(api_, connection_, statement));
  if (!options_.view_directory.empty()) {
    catalog_.Enter(std::make_shared<Scope>());
    if (HasUserViews(options_.view_directory)) EnsureGlobal("global");
    warnings_ = LoadUserViews(api_, connection_, options_.view_directory);
    catalog_.Leave();
  }
  functions_.emplace(api_, connection_);
  RETURN_IF_ERROR(functions_->Prepare());
  return RunOwn(api_, connection_, "SET lock_configuration = true");
}

Result<void> Engine::CreateTables() {
  for (const table::Table* table : table::AllTables()) {
    if (table->kind == table::Kind::kStored) catalog_.Add(MakeStoredSource(*table, history_));
    if (table->kind == table::Kind::kLive) catalog_.Add(MakeMissingSource(*table));
  }
  const ListTables list = [this] {
    const auto declared = table::AllTables();
    std::vector<const table::Table*> tables(declared.begin(), declared.end());
    for (const auto& table : user_tables_) tables.push_back(&table->table());
    return tables;
  };
  catalog_.Add(MakeTablesSource(list));
  catalog_.Add(MakeColumnsSource(list));
  catalog_.Add(table::MakeDropsSource());
  for (const auto& source : options_.sources) catalog_.Add(source);
  catalog_.Enter(std::make_shared<Scope>());  // views are bound when they are created
  RETURN_IF_ERROR(RunOwn(api_, connection_, "ATTACH ':memory:' AS global"));
  RETURN_IF_ERROR(CreateViews(false));
  catalog_.Leave();
  return {};
}

// In one transaction, which takes a third of the time that one for each would: they are known
// together or not at all.
Result<void> Engine::CreateViews(bool everywhere) {
  RETURN_IF_ERROR(RunOwn(api_, connection_, "BEGIN TRANSACTION"));
  for (const std::string& statement : SchemaStatements(everywhere)) {
    if (Result<void> created = RunOwn(api_, connection_, statement); !created.ok()) {
      (void)RunOwn(api_, connection_, "ROLLBACK");
      return created;
    }
  }
  return RunOwn(api_, connection_, "COMMIT");
}

// The views of `global` are as many again, and few queries want them: they are made for the first
// one that names them.
void Engine::EnsureGlobal(std::string_view sql) {
  if (has_global_ || !ContainsIgnoringCase(sql, "global")) return;
  has_global_ = CreateViews(true).ok();
  metrics_.clear();  // so that training_logs gets its columns there, too
}

// Macros of ours hide DuckDB's own functions: "the last five minutes" of an incident are those before it.
void Engine::SetNow(std::optional<std::int64_t> now_ns) {
  if (now_ns == now_ns_) return;
  now_ns_ = now_ns;
  kept_.Clear();
  for (const char* name : {"now", "get_current_timestamp", "transaction_timestamp"}) {
    const std::string macro = "memory.main." + std::string(name);
    (void)RunOwn(api_, connection_,
                 now_ns ? "CREATE OR REPLACE MACRO " + macro + "() AS CAST(make_timestamp(" +
                              std::to_string(*now_ns / 1000) + ") AS TIMESTAMPTZ)"
                        : "DROP MACRO IF EXISTS " + macro);
  }
}

Outcome Engine::Execute(std::string_view sql, Sight sight, const Limits& limits, ResultSink& sink) {
  Outcome outcome;
  auto scope = std::make_shared<Scope>();
  scope->targets = std::move(sight.targets);
  scope->history = std::move(sight.history);
  scope->gather = std::move(sight.gather);
  scope->is_recorded = sight.recorded_ns.has_value();
  SetNow(sight.recorded_ns);
  catalog_.Enter(scope);
  outcome.error = Run(sql, limits, sink, outcome.rows);
  catalog_.Leave();
  outcome.warnings = warnings_;
  for (std::string& warning : scope->TakeWarnings()) outcome.warnings.push_back(std::move(warning));
  return outcome;
}

std::optional<SqlError> Engine::Run(std::string_view sql_view, const Limits& limits, ResultSink& sink,
                                    std::int64_t& rows) {
  if (sql_view.size() > kMaxSqlBytes) return SqlError{Code::kUsage, "the SQL is longer than 1 MB", ""};
  if (sql_view.find('\0') != std::string_view::npos)
    return SqlError{Code::kUsage, "the SQL contains a zero byte", ""};
  const std::string sql(sql_view);

  timer_->Start(limits.timeout_ms);
  helper_->Start();
  EnsureGlobal(sql);
  RefreshUserTables();
  if (ContainsIgnoringCase(sql, "training_logs")) {
    // What other hosts log matters to those who ask for it.
    Gatherer& gather = catalog_.scope()->gather;
    Gatherer aside = ContainsIgnoringCase(sql, "global") ? gather : nullptr;
    std::swap(gather, aside);
    RefreshMetrics();
    std::swap(gather, aside);
  }
  std::optional<SqlError> error = RunStatement(IsShowTables(sql) ? kShowTables : sql, limits, sink, rows);
  if (error && error->is_engine_fault) is_broken_ = true;
  const bool is_mistake = error && (error->code == Code::kMistake || error->code == Code::kUsage);
  if (is_mistake && catalog_.scope()->source_failed) error->code = Code::kFailed;
  if (is_mistake) {
    std::vector<std::string_view> names;
    for (const table::Table* table : table::AllTables()) names.push_back(table->name);
    for (const auto& table : user_tables_) names.push_back(table->table().name);
    NameWhatWasMeant(*error, sql, names);
  }
  helper_->Stop();
  const bool out_of_time = timer_->Stop();
  if (std::exchange(in_transaction_, false) && !RunOwn(api_, connection_, "ROLLBACK").ok()) is_broken_ = true;
  if (error && out_of_time) error = TimeLimitError(limits);
  return error;
}

std::optional<SqlError> Engine::RunStatement(const std::string& sql, const Limits& limits, ResultSink& sink,
                                             std::int64_t& rows) {
  const bool prunes = IsWorthPruning(*catalog_.scope(), sql);
  std::unique_ptr<PreparedHandle> prepared = prunes ? nullptr : kept_.Take(sql);
  if (prepared == nullptr) {
    prepared = std::make_unique<PreparedHandle>();
    catalog_.StartCounting();
    if (auto error = PrepareReading(api_, connection_, *functions_, sql, *prepared)) return error;
    if (auto error = CheckSystemTables(sql)) return error;
  }
  // A SELECT cannot write, and is its own transaction: a third of the time of a small query. What
  // EXPLAIN ANALYZE runs is anybody's guess; and now() has to be the same for finding the range.
  const bool only_selects = api_.prepared_statement_type(prepared->value) == DUCKDB_STATEMENT_TYPE_SELECT;
  if (prunes || !only_selects) {
    if (const auto begun = RunOwn(api_, connection_, "BEGIN TRANSACTION READ ONLY"); !begun.ok())
      return SqlError{Code::kFailed, begun.error().message, ""};
    in_transaction_ = true;
  }
  if (catalog_.scope()->gather && !only_selects) {
    if (const Explained explained = ExplainedStatement(sql); !explained.is_run) Rehearse(explained.statement);
  }
  if (prunes) catalog_.scope()->time = FindTimeRanges(api_, connection_, catalog_, sql);
  if (auto error = Fetch(*prepared, sql, limits, sink, rows)) return error;
  if (!in_transaction_) kept_.Keep(sql, std::move(prepared));
  return std::nullopt;
}

// For EXPLAIN: runs what it explains over tables without rows, so that other hosts are asked how much they
// would send, for exactly the columns and times that the plan needs. What goes wrong here is no matter.
void Engine::Rehearse(const std::string& sql) {
  if (sql.empty()) return;
  Scope& scope = *catalog_.scope();
  PreparedHandle prepared;
  if (PrepareReading(api_, connection_, *functions_, sql, prepared)) return;
  if (IsWorthPruning(scope, sql)) scope.time = FindTimeRanges(api_, connection_, catalog_, sql);
  scope.is_rehearsal = true;
  ResultHandle result;
  if (api_.execute_prepared_streaming(prepared.value, &result.value) == DuckDBSuccess) {
    while (true) {
      const ChunkHandle chunk(api_.fetch_chunk(result.value));
      if (chunk.value == nullptr || api_.data_chunk_get_size(chunk.value) == 0) break;
    }
  }
  scope.is_rehearsal = false;
}

std::optional<SqlError> Engine::Fetch(const PreparedHandle& prepared, const std::string& sql,
                                      const Limits& limits, ResultSink& sink, std::int64_t& rows) {
  ResultHandle result;
  if (api_.execute_prepared_streaming(prepared.value, &result.value) != DuckDBSuccess)
    return ResultError(api_, result.value, sql, limits);
  if (const auto begun = sink.Begin(result.value); !begun.ok())
    return SqlError{begun.error().code, begun.error().message, begun.error().hint};
  while (true) {
    const ChunkHandle chunk(api_.fetch_chunk(result.value));
    if (chunk.value == nullptr) break;
    const auto count = static_cast<std::int64_t>(api_.data_chunk_get_size(chunk.value));
    if (count == 0) break;
    if (rows + count > limits.rows) return RowLimitError(limits);
    rows += count;
    if (const auto written = sink.Write(chunk.value); !written.ok())
      return SqlError{written.error().code, written.error().message, written.error().hint};
  }
  const char* problem = api_.result_error(&result.value);
  if (problem != nullptr && *problem != '\0') return ResultError(api_, result.value, sql, limits);
  return std::nullopt;
}

// A table of `system` is found by its last name, whatever stands before it (scan_function.cc); so
// afterwards the names in the query are looked at, as the parser sees them.
std::optional<SqlError> Engine::CheckSystemTables(const std::string& sql) {
  if (catalog_.by_last_name().empty()) return std::nullopt;
  const std::vector<std::string> names = TableNames(api_, connection_, sql);
  for (const std::string& name : names) {
    const std::string last_name = name.substr(name.rfind('.') + 1);
    if (!catalog_.by_last_name().contains(last_name) || name == "system." + last_name) continue;
    if (name.starts_with("global.")) continue;
    return SqlError{Code::kUsage, "table " + name + " does not exist",
                    "did you mean system." + last_name + "? `probing tables` lists all tables"};
  }
  return std::nullopt;
}

// Tables that jobs made come and go with the targets in scope.
void Engine::RefreshUserTables() {
  const Scope& scope = *catalog_.scope();
  auto found = table::FindUserTables(scope.targets);
  if (scope.history) AddHistoryTables(*scope.history, history_, found);
  const auto same = [](const auto& a, const auto& b) { return *a == *b; };
  if (std::ranges::equal(found, user_tables_, same)) return;
  kept_.Clear();
  for (const auto& table : user_tables_) {
    for (const std::string& statement : DropStatements(table->table()))
      (void)RunOwn(api_, connection_, statement);
    catalog_.Remove(table->table().name);
  }
  user_tables_ = std::move(found);
  for (const auto& table : user_tables_) {
    // The source keeps the table that it reads.
    std::shared_ptr<table::Source> source = MakeStoredSource(table->table(), history_);
    catalog_.Add({source.get(), [source, table](table::Source*) {}});
    for (const std::string& statement : CreateStatements(table->table()))
      (void)RunOwn(api_, connection_, statement);
  }
}

// training_logs has a column for every metric that the targets in scope log.
void Engine::RefreshMetrics() {
  std::vector<Metric> metrics = ReadMetrics(api_, connection_);
  if (metrics == metrics_) return;
  kept_.Clear();
  metrics_ = std::move(metrics);
  const table::Table* view = table::FindTable("training_logs");
  const std::string columns = MetricColumns(metrics_);
  for (const bool everywhere : {false, true})
    (void)RunOwn(api_, connection_, ViewStatement(*view, everywhere, columns));
}

}  // namespace probing::query
