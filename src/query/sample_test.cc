#include "query/sample_test.h"

#include "base/clock.h"
#include "query/value.h"
#include "table/registry.h"
#include "table/rows.h"

namespace probing::query {
namespace {

using table::Type;
using table::Value;

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr int kRows = 10;

Value SampleValue(const table::Table& table, const table::Column& column, std::int64_t row) {
  static const std::int64_t now_ns = WallNs();
  if (column.name == "timestamp") return now_ns - (kRows - 1 - row) * kMinuteNs - kMinuteNs / 2;
  if (row == 7) return {};
  // One row of training_logs has a loss, an accuracy and a note.
  if (table.name == "python.metrics") {
    constexpr const char* kNames[] = {"loss", "acc", "note"};
    if (column.name == "name") return std::string(kNames[row % 3]);
    if (column.name == "row" || column.name == "step") return row / 3;
    if (column.name == "epoch") return row / 6;
    if (column.name == "source") return std::string("log");
    if (column.name == "text") return row % 3 == 2 ? Value(std::string("fine")) : Value();
    if (column.name == "value") return row % 3 == 2 ? Value() : Value(static_cast<double>(row) / 2);
  }
  if (column.name == "kind" && (table.name == "gpu.kernels" || table.name == "python.torch_ops")) {
    constexpr const char* kGpuKinds[] = {"kernel", "memcpy", "memset"};
    constexpr const char* kOpKinds[] = {"op", "annotation", "runtime"};
    return std::string(table.name == "gpu.kernels" ? kGpuKinds[row % 3] : kOpKinds[row % 3]);
  }
  switch (column.type) {
    case Type::kInt64:
      return row;
    case Type::kDouble:
      return static_cast<double>(row) / 2;
    case Type::kBool:
      return row % 2 == 0;
    case Type::kTimestamp:
      return std::int64_t{1'767'225'600'000'000'000} + row;  // 2026-01-01
    case Type::kString:
    case Type::kBytes:
      return std::string(column.name) + std::to_string(row % 3);
  }
  return {};
}

Result<table::Rows> MakeRows(const table::Table& table, const std::vector<std::size_t>& columns) {
  table::Rows rows(table::TypesOf(table, columns));
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<Value> values;
    for (const std::size_t column : columns) values.push_back(SampleValue(table, table.columns[column], row));
    rows.Add(std::move(values));
  }
  return rows;
}

class TextSink : public ResultSink {
 public:
  TextSink(const DuckDb& api, TextResult& result) : api_(api), result_(result) {}

  Result<void> Begin(duckdb_result& result) override {
    for (idx_t i = 0; i < api_.column_count(&result); ++i) {
      result_.names.emplace_back(api_.column_name(&result, i));
      duckdb_logical_type type = api_.column_logical_type(&result, i);
      types_.push_back(DescribeType(api_, type));
      api_.destroy_logical_type(&type);
      const duckdb_type id = types_.back().id;
      const bool is_real = id == DUCKDB_TYPE_DOUBLE || id == DUCKDB_TYPE_FLOAT || id == DUCKDB_TYPE_DECIMAL;
      result_.types += id == DUCKDB_TYPE_BOOLEAN   ? 'B'
                       : is_real                   ? 'R'
                       : types_.back().is_number() ? 'I'
                                                   : 'T';
    }
    return {};
  }
  Result<void> Write(duckdb_data_chunk chunk) override {
    for (idx_t row = 0; row < api_.data_chunk_get_size(chunk); ++row) {
      std::string line;
      for (std::size_t i = 0; i < types_.size(); ++i) {
        const ColumnView column(api_, api_.data_chunk_get_vector(chunk, i), types_[i]);
        std::string text;
        if (column.IsNull(row))
          text = "NULL";
        else
          column.AppendText(text, row);
        line += (i > 0 ? "\t" : "") + (text.empty() ? "(empty)" : text);
      }
      result_.rows.push_back(std::move(line));
    }
    return {};
  }

 private:
  const DuckDb& api_;
  TextResult& result_;
  std::vector<ValueType> types_;
};

}  // namespace

std::vector<std::shared_ptr<table::Source>> SampleSources() {
  std::vector<std::shared_ptr<table::Source>> sources;
  for (const table::Table* table : table::AllTables()) {
    const bool is_own = table->name == "probing.tables" || table->name == "probing.columns";
    if (table->kind == table::Kind::kView || is_own) continue;
    sources.push_back(
        table::MakeRowsSource({table, [table](const table::Target*, const std::vector<std::size_t>& columns) {
                                 return MakeRows(*table, columns);
                               }}));
  }
  return sources;
}

std::vector<table::Target> SampleTargets() {
  std::vector<table::Target> targets(2);
  targets[0].pid = 100;
  targets[0].rank = 0;
  targets[0].host = "one";
  targets[1].pid = 101;
  targets[1].rank = 1;
  targets[1].host = "a host whose name is longer than twelve bytes";
  targets[1].selected = false;
  return targets;
}

Engine& SampleEngine() {
  // Never closed: DuckDB's own statics would be gone before ours.
  static Engine* const engine = [] {
    EngineOptions options;
    options.sources = SampleSources();
    Result<std::unique_ptr<Engine>> opened = Engine::Open(std::move(options));
    if (!opened.ok()) {
      fprintf(stderr, "%s\n%s\n", opened.error().message.c_str(), opened.error().hint.c_str());
      abort();
    }
    return opened->release();
  }();
  return *engine;
}

TextResult RunSample(std::string_view sql, const Limits& limits) {
  Engine& engine = SampleEngine();
  TextResult result;
  TextSink sink(engine.api(), result);
  Outcome outcome = engine.Execute(sql, SampleTargets(), limits, sink);
  result.error = std::move(outcome.error);
  result.warnings = std::move(outcome.warnings);
  return result;
}

}  // namespace probing::query
