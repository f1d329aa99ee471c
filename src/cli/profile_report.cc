#include "cli/profile_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.h"

namespace probing::cli {
namespace {

constexpr std::size_t kCosts = 5;
constexpr std::size_t kLongestName = 60;

constexpr const char* kAboutSql = R"(
SELECT count(*) FILTER (WHERE kind = 'op') AS ops, count(DISTINCT step) AS steps, max(profile) AS profile,
       (max(timestamp_ns + CAST(duration_us * 1000 AS BIGINT)) - min(timestamp_ns)) / 1e3 AS us
FROM python.torch_ops WHERE profile = (SELECT max(profile) FROM python.torch_ops))";
constexpr const char* kGpusSql = R"(
SELECT rank, device, span_us, busy_us, idle_us, idle_share, communication_us, exposed_us, exposed_share, copy_us
FROM gpu.utilization WHERE profile = (SELECT max(profile) FROM gpu.kernels) ORDER BY rank, device)";
constexpr const char* kKernelsSql = R"(
SELECT coalesce(op, scope, 'no operator of the profile') AS op, sum(duration_us) AS us, count(*) AS calls,
       arg_max(name, duration_us) AS name,
       sum(duration_us) / (SELECT sum(duration_us) FROM gpu.kernels WHERE kind IN ('kernel', 'memcpy', 'memset')
                           AND profile = (SELECT max(profile) FROM gpu.kernels)) AS share
FROM gpu.kernels
WHERE kind = 'kernel' AND NOT communication AND profile = (SELECT max(profile) FROM gpu.kernels)
GROUP BY ALL ORDER BY us DESC LIMIT 5)";
constexpr const char* kOpsSql = R"(
SELECT op, calls, self_us AS us, self_us / sum(self_us) OVER () AS share, bytes
FROM python.op_costs WHERE kind IN ('op', 'runtime') AND profile = (SELECT max(profile) FROM python.torch_ops)
ORDER BY self_us DESC LIMIT 5)";
// Memory is allocated by aten::empty and its like, for the operator that called them.
constexpr const char* kMemorySql = R"(
WITH RECURSIVE ops AS (
  SELECT *, regexp_matches(op, '^aten::(empty|new_empty|resize)') AS allocates FROM python.torch_ops
  WHERE kind IN ('op', 'annotation') AND profile = (SELECT max(profile) FROM python.torch_ops)),
callers AS (
  SELECT pid, op, module, parent_id, allocates, bytes, 0 AS depth FROM ops WHERE bytes <> 0
  UNION ALL
  SELECT o.pid, o.op, o.module, o.parent_id, o.allocates, c.bytes, c.depth + 1 FROM callers c
  JOIN ops o ON o.op_id = c.parent_id AND o.pid = c.pid WHERE c.allocates AND c.depth < 10)
SELECT op, module, CAST(sum(bytes) AS BIGINT) AS bytes, count(*) AS calls FROM callers
WHERE NOT allocates OR parent_id IS NULL GROUP BY ALL HAVING sum(bytes) > 0 ORDER BY bytes DESC LIMIT 5)";

Result<Json> Rows(Question question, const char* sql) {
  question.sql = sql;
  question.format = "json";
  ASSIGN_OR_RETURN(const std::string answer, Query(question));
  Json rows = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!rows.is_array()) return Error{Code::kFailed, "the answer about the profile is no JSON", ""};
  return rows;
}

double Number(const Json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

std::string Text(const Json& row, const char* name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_string() ? OneLine(found->get<std::string>(), kLongestName) : "";
}

std::string Formatted(const char* format, double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

std::string Time(double us) {
  if (us >= 1e6) return Formatted("%.2f s", us / 1e6);
  return us >= 1e3 ? Formatted("%.1f ms", us / 1e3) : Formatted("%.0f us", us);
}
std::string Percent(double share) { return Formatted("%.0f %%", share * 100); }
std::string Count(double number) { return Formatted("%.0f", number); }

class Costs {
 public:
  void Add(double us, std::string text) {
    if (us > 0) found_.emplace_back(us, std::move(text));
  }
  Json Biggest() {
    std::ranges::stable_sort(found_, [](const auto& a, const auto& b) { return a.first > b.first; });
    Json list = Json::array();
    for (const auto& [us, text] : found_) {
      if (list.size() < kCosts) list.push_back({{"us", us}, {"text", text}});
    }
    return list;
  }

 private:
  std::vector<std::pair<double, std::string>> found_;
};

// "GPU 0", and whose it is when there are several ranks.
std::string GpuName(const Json& gpu, bool several_ranks) {
  std::string name = "GPU " + Count(Number(gpu, "device"));
  if (several_ranks) name += " of rank " + Count(Number(gpu, "rank"));
  return name;
}

void AddGpus(const Json& gpus, bool several_ranks, Costs& costs) {
  for (const Json& gpu : gpus) {
    const std::string name = GpuName(gpu, several_ranks);
    costs.Add(Number(gpu, "idle_us"), name + " had nothing to do for " + Time(Number(gpu, "idle_us")) + ", " +
                                          Percent(Number(gpu, "idle_share")) + " of its time");
    costs.Add(Number(gpu, "exposed_us"), name + " did nothing but communicate for " +
                                             Time(Number(gpu, "exposed_us")) + ", " +
                                             Percent(Number(gpu, "exposed_share")) + " of its time");
    costs.Add(Number(gpu, "copy_us"), name + " copied or set memory for " + Time(Number(gpu, "copy_us")));
  }
}

}  // namespace

Result<Json> ProfileReport(const Question& about) {
  ASSIGN_OR_RETURN(const Json found, Rows(about, kAboutSql));
  ASSIGN_OR_RETURN(const Json gpus, Rows(about, kGpusSql));
  ASSIGN_OR_RETURN(const Json kernels, Rows(about, kKernelsSql));
  ASSIGN_OR_RETURN(const Json ops, Rows(about, kOpsSql));
  if (ops.empty() && gpus.empty())
    return Error{Code::kFailed, "there is no profile to report on",
                 "`probing -t PID profile --steps 3` records one"};
  Costs costs;
  const bool several_ranks =
      std::ranges::any_of(gpus, [&](const Json& gpu) { return gpu["rank"] != gpus.front()["rank"]; });
  AddGpus(gpus, several_ranks, costs);
  for (const Json& kernel : kernels) {
    costs.Add(Number(kernel, "us"),
              "kernels of " + Text(kernel, "op") + " ran for " + Time(Number(kernel, "us")) +
                  " on the GPU, " + Percent(Number(kernel, "share")) + " of its work, in " +
                  Count(Number(kernel, "calls")) + " calls; the longest is " + Text(kernel, "name"));
  }
  Json cpu = Json::array();
  for (const Json& op : ops) {
    const std::string text = Text(op, "op") + " took " + Time(Number(op, "us")) + " of its own on the CPU, " +
                             Percent(Number(op, "share")) + " of what all operators did, in " +
                             Count(Number(op, "calls")) + " calls";
    if (gpus.empty()) costs.Add(Number(op, "us"), text);
    cpu.push_back(text);
  }
  ASSIGN_OR_RETURN(const Json allocating, Rows(about, kMemorySql));
  Json memory = Json::array();
  for (const Json& op : allocating) {
    const std::string module = Text(op, "module");
    memory.push_back(Text(op, "op") + (module.empty() ? "" : " of " + module) + " allocated " +
                     FormatBytes(Number(op, "bytes")) + " more than it freed");
  }
  const Json row = found.empty() ? Json::object() : found.front();
  return Json{{"profile", row.value("profile", Json())},
              {"seconds", Number(row, "us") / 1e6},
              {"steps", row.value("steps", Json())},
              {"ops", row.value("ops", Json())},
              {"gpus", gpus},
              {"costs", costs.Biggest()},
              {"cpu", cpu},
              {"memory", memory}};
}

std::string ProfileText(const Json& report) {
  const double steps = Number(report, "steps");
  std::string text = Count(Number(report, "ops")) + " operators" +
                     (steps > 0 ? ", " + Count(steps) + (steps > 1 ? " steps" : " step") : "") + ", " +
                     Time(Number(report, "seconds") * 1e6) + "\n";
  for (const Json& gpu : report["gpus"]) {
    const bool several = gpu["rank"] != report["gpus"].front()["rank"] || !gpu["rank"].is_null();
    text += GpuName(gpu, several) + ": " + Percent(1 - Number(gpu, "idle_share")) + " busy of " +
            Time(Number(gpu, "span_us")) + ", " + Time(Number(gpu, "communication_us")) +
            " in communication (" + Time(Number(gpu, "exposed_us")) + " of it with nothing else going on), " +
            Time(Number(gpu, "copy_us")) + " in copies\n";
  }
  text += "\nThe biggest costs:\n";
  int number = 0;
  for (const Json& cost : report["costs"])
    text += "  " + std::to_string(++number) + ". " + cost["text"].get<std::string>() + "\n";
  if (!report["gpus"].empty() && !report["cpu"].empty()) {
    text += "\nOn the CPU:\n";
    for (const Json& op : report["cpu"]) text += "  - " + op.get<std::string>() + "\n";
  }
  if (!report["memory"].empty()) {
    text += "\nMemory:\n";
    for (const Json& op : report["memory"]) text += "  - " + op.get<std::string>() + "\n";
  }
  return text;
}

}  // namespace probing::cli
