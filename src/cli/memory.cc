// probing memory: what the processes of a job take, now and since they are watched; what leaks; what is on
// the heap of one, read from outside.
#include <cstdio>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "heap/heap.h"

namespace probing::cli {
namespace {

// Children are in system.process too; what changed over time is known of targets only.
constexpr const char* kSql = R"(
WITH series AS (
  SELECT pid, max(rss_mb) AS peak_mb, arg_max(rss_mb, timestamp) - arg_min(rss_mb, timestamp) AS growth_mb,
         max(timestamp) - min(timestamp) AS watched
  FROM memory_usage GROUP BY pid)
SELECT process.pid, process.name, round(process.rss / 1048576, 1) AS rss_mb,
       round(process.vms / 1048576, 1) AS vms_mb, round(series.peak_mb, 1) AS peak_mb,
       round(series.growth_mb, 1) AS growth_mb, date_trunc('second', series.watched) AS watched
FROM system.process AS process LEFT JOIN series ON series.pid = process.pid
ORDER BY process.rss DESC)";

// Every question to python.leaks counts once; so many counts are kept, and half of them must be lower
// than the other half.
constexpr int kCounts = 16;
constexpr const char* kCountSql = "SELECT count(steps) FROM python.leaks";
constexpr const char* kLeaksSql = R"(
SELECT type, shape, dtype, count, grown, round(bytes / 1048576, 2) AS mb,
       round(grown_bytes / 1048576, 2) AS grown_mb, module, made_by, holder,
       round(epoch(now()) - epoch(since), 1) AS seconds,
       coalesce(steps, (SELECT nullif(count(*), 0) FROM python.torch_steps WHERE timestamp >= since)) AS steps
FROM python.leaks)";

// Leaks are counted by the probe: without one every answer would be empty.
Result<void> RequireProbe(const Invocation& invocation) {
  if (!invocation.target) return {};  // another host's probingd says so itself
  ASSIGN_OR_RETURN(const std::string answer,
                   Query({.target = invocation.target,
                          .sql = "SELECT count(*) FROM probing.targets WHERE state <> 'ended'",
                          .format = "csv"}));
  if (answer.find("\n0") == std::string::npos) return {};
  const std::string pid = std::to_string(*invocation.target);
  return Error{Code::kNotFound, "process " + pid + " has no probe, which counts objects",
               "run `probing -t " + pid + " inject` first"};
}

// Returns JSON, and in `seconds` how long objects were counted.
Result<std::string> FindLeaks(const Invocation& invocation, double& seconds) {
  constexpr double kDefaultSeconds = 4;
  ASSIGN_OR_RETURN(seconds, invocation.GetNumber("--duration", kDefaultSeconds));
  const auto pause_us = static_cast<std::int64_t>(seconds * 1e6 / (kCounts - 1));
  for (int i = 1; i < kCounts; ++i) {
    ASSIGN_OR_RETURN(const std::string answer,
                     Query({.target = invocation.target, .sql = kCountSql, .format = "csv"}));
    // With census=on the job has counted itself, at the ends of steps: no need to wait, unless one wants to.
    const bool known = answer.find("\n0") == std::string::npos;
    if (known && !invocation.Has("--duration")) break;
    SleepUs(pause_us);
  }
  return Query({.target = invocation.target, .sql = kLeaksSql, .format = "json"});
}

std::string Number(const Json& row, const char* name, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, row[name].is_number() ? row[name].get<double>() : 0.0);
  return text;
}

std::string Text(const Json& row, const char* name) {
  return row[name].is_string() ? row[name].get<std::string>() : "";
}

// A leak in two lines, what grows and what holds it: a table of these columns fits no terminal.
std::string DescribeLeak(const Json& row) {
  std::string what = Text(row, "type");
  for (const char* name : {"shape", "dtype"})
    if (!Text(row, name).empty()) what += " " + Text(row, name);
  std::string text = Painted(what, Colour::kRed) + ": " + Number(row, "count", "%.0f") + ", " +
                     Number(row, "grown", "%.0f") + " more in " + Number(row, "seconds", "%.1f") + " s";
  if (row["steps"].is_number()) text += " (" + Number(row, "steps", "%.0f") + " steps)";
  text += ", +" + Number(row, "grown_mb", "%.2f") + " MB of " + Number(row, "mb", "%.2f");
  if (!Text(row, "made_by").empty()) text += ", made by " + Text(row, "made_by");
  if (!Text(row, "module").empty()) text += ", module " + Text(row, "module");
  text += "\n";
  return Text(row, "holder").empty() ? text : text + "  held by " + Text(row, "holder") + "\n";
}

Result<int> PrintLeaks(const Invocation& invocation) {
  RETURN_IF_ERROR(RequireProbe(invocation));
  double seconds = 0;
  ASSIGN_OR_RETURN(const std::string answer, FindLeaks(invocation, seconds));
  if (invocation.Has("--json")) {
    Print(answer);
    return 0;
  }
  const Json rows = Json::parse(answer, nullptr, false);
  if (!rows.is_array()) return Error{Code::kFailed, "cannot read what probingd answered"};
  for (const Json& row : rows) Print(DescribeLeak(row));
  if (rows.empty()) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "nothing grew steadily in %.1f s; a slow leak needs longer: --duration 60\n", seconds);
    Print(text);
  }
  return 0;
}

Result<int> ShowHeap(const Invocation& invocation) {
  heap::Options options;
  if (invocation.Has("--top") && (!ParseNumber(invocation.Get("--top"), options.top) || options.top == 0)) {
    return Error{Code::kUsage, "--top takes a number above 0, not '" + invocation.Get("--top") + "'", ""};
  }
  if (invocation.endpoint) {
    return Error{Code::kUsage, "--heap is for processes of this host",
                 "run it there: `ssh HOST probing -t PID memory --heap`"};
  }
  const bool is_core = invocation.Has("--core");
  if (!is_core && !invocation.target.has_value())
    return Error{Code::kUsage, "--heap looks into one process", "name it: probing -t PID memory --heap"};
  const std::string program = invocation.arguments.empty() ? "" : invocation.arguments.front();
  ASSIGN_OR_RETURN(const heap::Report report, is_core
                                                  ? heap::ReadCore(invocation.Get("--core"), program, options)
                                                  : heap::ReadLive(*invocation.target, options));
  for (const std::string& remark : report.remarks) PrintAside("note: " + remark + "\n");
  Print(invocation.Has("--json") ? heap::ReportToJson(report) : heap::ReportToText(report));
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  if (invocation.Has("--heap")) return ShowHeap(invocation);
  for (const char* option : {"--core", "--top"}) {
    if (invocation.Has(option))
      return Error{Code::kUsage, std::string(option) + " is of --heap", "give both"};
  }
  const std::string format = invocation.Has("--json") ? "json" : "table";
  if (!invocation.Has("--leaks")) {
    ASSIGN_OR_RETURN(const std::string answer,
                     Query({.target = invocation.target, .sql = kSql, .format = format}));
    Print(answer);
    return 0;
  }
  if (!invocation.target.has_value() && !invocation.endpoint.has_value()) {
    return Error{Code::kUsage, "--leaks looks into one process", "name it: probing -t PID memory --leaks"};
  }
  return PrintLeaks(invocation);
}

}  // namespace

Command MemoryCommand() {
  return {
      .name = "memory",
      .summary = "Show the memory of a target's processes, its growth, and leaks",
      .example = "probing -t 1234 memory --leaks",
      .target = TargetUse::kOptional,
      .all_is_fine = true,
      .options = {{"--heap", "", "objects by class, and what holds most: from outside, without a probe"},
                  {"--top", "N", "of --heap: how many classes and holders (10)"},
                  {"--core", "FILE", "of --heap: a core file; its program, or a folder of files, may follow"},
                  {"--leaks", "", "what there is more and more of, and who holds it"},
                  {"-d,--duration", "SECONDS", "how long to look for leaks (4)"},
                  {"--json", "", "print JSON"}},
      .instead_of_target = "--core",
      .run = Run};
}

}  // namespace probing::cli
