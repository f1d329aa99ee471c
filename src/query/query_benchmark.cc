// What queries cost: the engine over rings beside a native DuckDB table with the same rows, and the
// way through a worker. Prints one line for each; times are milliseconds. CPU is the mean of this
// process on all cores, which says more than the clock on a machine that others use as well.
//
//   cmake --build build/release --target query_benchmark && build/release/bin/query_benchmark
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/clock.h"
#include "query/client.h"
#include "query/engine.h"
#include "query/format.h"
#include "query/handles.h"
#include "query/worker.h"
#include "ring/arena.h"
#include "table/registry.h"
#include "table/ring_source.h"

namespace probing::query {
namespace {

double RssMb(std::int64_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::atof(line.c_str() + 6) / 1024;
  }
  return 0;
}

void Measure(const char* name, int times, const std::function<void()>& body) {
  std::vector<double> ms;
  const std::int64_t cpu_begun = ReadClockNs(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < times; ++i) {
    const std::int64_t begun = MonotonicNs();
    body();
    ms.push_back(static_cast<double>(MonotonicNs() - begun) / 1e6);
  }
  const double cpu_ms = static_cast<double>(ReadClockNs(CLOCK_PROCESS_CPUTIME_ID) - cpu_begun) / 1e6 / times;
  std::ranges::sort(ms);
  std::printf("%-54s p50 %9.3f  p99 %9.3f  CPU %9.3f\n", name, ms[ms.size() / 2], ms[ms.size() * 99 / 100],
              cpu_ms);
  std::fflush(stdout);
}

void Fill(ring::Table& table, int rows) {
  using ring::Cell;
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) names.push_back("model.layers." + std::to_string(i) + ".attention.forward");
  std::vector<Cell> row(static_cast<std::uint32_t>(table.columns().size()), Cell::Null());
  const std::int64_t now_ns = WallNs();
  for (int i = 0; i < rows; ++i) {
    row[0] = Cell::Timestamp(now_ns - (rows - i) * 1000);
    row[1] = Cell::Int(i / 50);
    row[2] = Cell::Int(i % 50);
    row[5] = Cell::String(names[static_cast<std::size_t>(i % 50)]);
    row[11] = Cell::Double(i % 100 * 0.01);
    table.Write(row.data(), static_cast<std::uint32_t>(table.columns().size()));
  }
}

void MustRun(Engine& engine, const std::string& sql, const std::vector<table::Target>& targets) {
  const auto writer =
      MakeFormatWriter(engine, {Format::kCsv, 0}, [](std::string_view) -> Result<void> { return {}; });
  const Outcome outcome = engine.Execute(sql, targets, {}, *writer);
  if (outcome.error) {
    std::printf("%s\n", outcome.error->Text(sql).c_str());
    exit(1);
  }
}

constexpr char kByStep[] = "SELECT step % 100 AS k, avg(duration_ms), count(*) FROM %s GROUP BY k";
constexpr char kByName[] = "SELECT operation_name, avg(duration_ms), count(*) FROM %s GROUP BY 1";
constexpr char kRecent[] =
    "SELECT operation_name, avg(duration_ms) FROM %s WHERE timestamp > now() - interval '5 minutes' GROUP BY "
    "1";

std::string On(const char* sql, const std::string& table) {
  std::string text(sql);
  return text.replace(text.find("%s"), 2, table);
}

void MeasureRows(int rows) {
  ring::ArenaOptions options;
  options.max_memory = 1UL << 30;
  const auto arena = std::move(*ring::Arena::Create(std::move(options)));
  const table::Table& trace = *table::FindTable("python.torch_trace");
  ring::Table& table =
      **arena->AddTable({"python.torch_trace", table::RingColumns(trace), static_cast<std::uint64_t>(rows)});
  Fill(table, rows);
  std::vector<table::Target> targets(1);
  targets[0].pid = getpid();
  targets[0].ring_fds.push_back(std::make_shared<const ScopedFd>(dup(arena->fd())));
  const auto engine = std::move(*Engine::Open({}));

  // The limit: DuckDB's own table, in another database of the same library.
  EngineOptions native_options;
  const auto native = std::move(*Engine::Open(native_options));
  duckdb_connection connection = nullptr;
  native->api().connect(native->database(), &connection);
  const std::string make =
      "CREATE TABLE t AS SELECT now() - to_microseconds(i) AS timestamp, i // 50 AS step,"
      " 'model.layers.' || (i % 50) || '.attention.forward' AS operation_name,"
      " (i % 100) * 0.01::DOUBLE AS duration_ms FROM range(" +
      std::to_string(rows) + ") r(i)";
  if (!RunOwn(native->api(), connection, make).ok()) exit(1);

  const int times = rows > 100'000 ? 30 : 300;
  const std::pair<const char*, const char*> queries[] = {
      {kByStep, "int key"}, {kByName, "string key"}, {kRecent, "string key, last 5 minutes"}};
  for (const auto& [sql, what] : queries) {
    const std::string name = std::to_string(rows) + " rows, group by " + what;
    Measure((name + ", ring").c_str(), times,
            [&] { MustRun(*engine, On(sql, "python.torch_trace"), targets); });
    Measure((name + ", native").c_str(), times, [&] { MustRun(*native, On(sql, "t"), {}); });
  }
  Measure((std::to_string(rows) + " rows, sum of two columns, ring").c_str(), times,
          [&] { MustRun(*engine, "SELECT sum(step), sum(duration_ms) FROM python.torch_trace", targets); });
  native->api().disconnect(&connection);
}

void MeasureWorker() {
  QueryRequest request;
  request.sql = "SELECT 1";
  request.format.format = Format::kJson;
  Measure("worker: start and first SELECT 1", 10, [&] {
    QueryClient client({.program = "/proc/self/exe", .arguments = {"worker"}});
    if (client.Run(request).error) exit(1);
  });
  QueryClient client({.program = "/proc/self/exe", .arguments = {"worker"}});
  if (client.Run(request).error) exit(1);
  const std::int64_t pid = client.worker_pids().at(0);
  std::printf("worker: RSS after the first query %.1f MB\n", RssMb(pid));
  Measure("worker: SELECT 1, warm", 1000, [&] { client.Run(request); });
  std::printf("worker: RSS after 1000 queries %.1f MB, of this process %.1f MB\n", RssMb(pid),
              RssMb(getpid()));
}

}  // namespace
}  // namespace probing::query

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "worker") == 0) return probing::query::RunWorker({});
  probing::query::MeasureWorker();
  probing::query::Measure("engine: open", 10, [] { (void)probing::query::Engine::Open({}); });
  {
    const auto engine = std::move(*probing::query::Engine::Open({}));
    probing::query::Measure("engine: SELECT 1", 1000,
                            [&] { probing::query::MustRun(*engine, "SELECT 1", {}); });
  }
  probing::query::MeasureRows(10'000);
  probing::query::MeasureRows(1'000'000);
  return 0;
}
