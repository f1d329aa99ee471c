#include "query/time_range.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "query/format.h"
#include "query/handles.h"
#include "query/schema.h"
#include "query/time_pruning.h"
#include "ring/arena.h"
#include "table/registry.h"
#include "table/ring_source.h"

namespace probing::query {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kNewYearNs = 1'767'225'600 * kSecondNs;  // 2026-01-01

// Runs a query and looks at what the scans were told.
class Watched : public ResultSink {
 public:
  Result<void> Begin(duckdb_result&) override { return {}; }
  Result<void> Write(duckdb_data_chunk) override { return {}; }
};

class RangeSource : public table::Source {
 public:
  explicit RangeSource(const table::Table& table) : table_(table) {}
  const table::Table& table() const override { return table_; }
  Result<std::vector<table::Part>> Parts(const table::ScanRequest& request) override {
    seen = request.time;
    return std::vector<table::Part>();
  }
  table::TimeRange seen;

 private:
  const table::Table& table_;
};

struct Fixture {
  std::shared_ptr<RangeSource> gc = std::make_shared<RangeSource>(*table::FindTable("python.gc"));
  std::shared_ptr<RangeSource> cpu = std::make_shared<RangeSource>(*table::FindTable("system.cpu"));
  Engine* engine = nullptr;
};

Fixture& TheFixture() {
  static Fixture* const fixture = [] {
    auto* made = new Fixture;
    EngineOptions options;
    options.sources = {made->gc, made->cpu};
    made->engine = Engine::Open(std::move(options))->release();  // never closed, as in sample_test.cc
    return made;
  }();
  return *fixture;
}

table::TimeRange RangeOf(const std::string& sql) {
  Fixture& fixture = TheFixture();
  fixture.gc->seen = {};
  Watched sink;
  const Outcome outcome =
      fixture.engine->Execute(sql, Sight{{}, table::HistoryScope{"/nowhere", std::nullopt}}, {}, sink);
  EXPECT_FALSE(outcome.error) << sql << ": " << outcome.error->message;
  return fixture.gc->seen;
}

bool IsOpen(const table::TimeRange& range) { return range.from_ns == INT64_MIN && range.to_ns == INT64_MAX; }

TEST(TimeRange, ConditionsOnOneTableAreFound) {
  const std::string jan = "TIMESTAMPTZ '2026-01-01 00:00:00+00'";
  for (const std::string& sql : {
           "SELECT * FROM python.gc WHERE timestamp >= " + jan,
           std::string("SELECT * FROM python.gc WHERE timestamp > '2026-01-01'"),
           "SELECT * FROM python.gc WHERE generation = 2 AND (" + jan + " < timestamp)",
           "SELECT count(*) FROM global.python.gc AS g WHERE g.timestamp > " + jan + " GROUP BY generation",
           "SELECT * FROM (SELECT * FROM python.gc WHERE timestamp > " + jan + ") WHERE generation = 1",
           "WITH c AS (SELECT * FROM python.gc WHERE timestamp > " + jan + ") SELECT count(*) FROM c",
       }) {
    const table::TimeRange range = RangeOf(sql);
    EXPECT_EQ(range.from_ns, kNewYearNs) << sql;
    EXPECT_EQ(range.to_ns, INT64_MAX) << sql;
  }
  const table::TimeRange both =
      RangeOf("SELECT * FROM python.gc WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-02'");
  EXPECT_EQ(both.from_ns, kNewYearNs);
  EXPECT_EQ(both.to_ns, kNewYearNs + 86400 * kSecondNs + 999);
  const std::int64_t before_ns = WallNs();
  const table::TimeRange recent =
      RangeOf("SELECT * FROM python.gc WHERE timestamp > now() - interval '5 minutes'");
  EXPECT_NEAR(static_cast<double>(recent.from_ns), static_cast<double>(before_ns - 300 * kSecondNs), 60e9);
}

TEST(TimeRange, WhatIsNotUnderstoodIsNotUsed) {
  for (const char* sql : {
           "SELECT * FROM python.gc",
           "SELECT * FROM python.gc WHERE timestamp > '2026-01-01' OR generation = 2",
           "SELECT * FROM python.gc WHERE NOT (timestamp > '2026-01-01' AND generation = 2)",
           "SELECT * FROM python.gc a, python.gc b WHERE a.timestamp > '2026-01-01'",
           "SELECT * FROM python.gc WHERE timestamp > now() - to_seconds(random())",
           "SELECT * FROM python.gc AS g(a, timestamp) WHERE a > '2026-01-01'",
           "SELECT *, timestamp - interval 1 day AS t FROM python.gc WHERE t > '2026-01-01'",
           "SELECT * FROM (SELECT timestamp - interval 1 day AS timestamp FROM python.gc) WHERE timestamp > "
           "'2026-01-01'",
           "SELECT * FROM python.gc WHERE timestamp > (SELECT max(timestamp) FROM system.cpu)",
           "SELECT * FROM python.gc WHERE timestamp > '2026-01-01' UNION ALL SELECT * FROM python.gc",
       }) {
    EXPECT_TRUE(IsOpen(RangeOf(sql))) << sql;
  }
}

TEST(TimeRange, ATableThatIsReadTwiceIsReadForBoth) {
  const table::TimeRange range = RangeOf(
      "SELECT * FROM python.gc WHERE timestamp BETWEEN '2026-01-01' AND '2026-01-02' UNION ALL "
      "SELECT * FROM python.gc WHERE timestamp BETWEEN '2026-01-03' AND '2026-01-04'");
  EXPECT_EQ(range.from_ns, kNewYearNs);
  EXPECT_EQ(range.to_ns, kNewYearNs + 3 * 86400 * kSecondNs + 999);
}

}  // namespace
}  // namespace probing::query
