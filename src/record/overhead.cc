#include "record/overhead.h"

#include <array>
#include <atomic>
#include <string_view>

#include "table/registry.h"
#include "table/rows.h"

namespace probing::record {
namespace {

struct Counters {
  std::atomic<std::int64_t> calls{0};
  std::atomic<std::int64_t> total_ns{0};
};
std::array<Counters, kParts> counters;

constexpr std::array<std::string_view, kParts> kNames{"evaluations", "live", "hooks", "memory",
                                                      "gc",          "rows", "torch", "collectives"};

Counters& CountersOf(Part part) { return counters[static_cast<std::size_t>(part)]; }

// The GIL orders most writers; where there is none a lost count does not matter.
void Increase(std::atomic<std::int64_t>& counter, std::int64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

const table::Table* Declaration() {
  for (const table::Table& declared : table::OwnTables()) {
    if (declared.name == "probing.overhead") return &declared;
  }
  return nullptr;
}

table::Value ValueOf(std::string_view column, std::string_view part, const Cost& cost, std::int64_t age_ns) {
  if (column == "part") return std::string(part);
  if (column == "calls") return cost.calls;
  if (column == "total_ns") return cost.total_ns;
  const auto total_ns = static_cast<double>(cost.total_ns);
  if (column == "mean_ns" && cost.calls > 0) return total_ns / static_cast<double>(cost.calls);
  if (column == "percent" && age_ns > 0) return 100 * total_ns / static_cast<double>(age_ns);
  return {};
}

}  // namespace

void Overhead::Add(Part part, std::int64_t ns) {
  Increase(CountersOf(part).calls, 1);
  Increase(CountersOf(part).total_ns, ns);
}

Cost Overhead::Of(Part part) {
  const Counters& of = CountersOf(part);
  return {of.calls.load(std::memory_order_relaxed), of.total_ns.load(std::memory_order_relaxed)};
}

bool Overhead::CountRow() {
  std::atomic<std::int64_t>& calls = CountersOf(Part::kRows).calls;
  const std::int64_t before = calls.load(std::memory_order_relaxed);
  calls.store(before + 1, std::memory_order_relaxed);
  return before % kRowsPerTiming == 0;
}

void Overhead::AddTimedRow(std::int64_t ns) {
  // The first call is timed, and may be the only one: it stands for those that there have been.
  const Cost cost = Of(Part::kRows);
  const std::int64_t stands_for = cost.calls < kRowsPerTiming ? 1 : kRowsPerTiming;
  Increase(CountersOf(Part::kRows).total_ns, ns * stands_for);
}

void Overhead::Reset() {
  for (Counters& each : counters) {
    each.calls.store(0);
    each.total_ns.store(0);
  }
}

Result<std::string> EncodeOverhead(const std::vector<std::string>& columns, const Cost& control,
                                   std::int64_t since_ns) {
  const table::Table* declared = Declaration();
  std::vector<std::size_t> indexes;
  for (const std::string& wanted : columns) {
    for (std::size_t i = 0; i < declared->columns.size(); ++i) {
      if (declared->columns[i].name == wanted) indexes.push_back(i);
    }
  }
  if (indexes.size() != columns.size()) {
    return Error{Code::kUsage, "probing.overhead has not all of these columns", "see probing.columns"};
  }
  const std::int64_t age_ns = WallNs() - since_ns;
  table::Rows rows(table::TypesOf(*declared, indexes));
  const auto add = [&](std::string_view part, const Cost& cost) {
    std::vector<table::Value> row;
    for (const std::string& column : columns) row.push_back(ValueOf(column, part, cost, age_ns));
    rows.Add(std::move(row));
  };
  add("control", control);
  for (std::size_t i = 0; i < kParts; ++i) add(kNames[i], Overhead::Of(static_cast<Part>(i)));
  return rows.Encode();
}

}  // namespace probing::record
