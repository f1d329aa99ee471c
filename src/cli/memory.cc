// probing memory: what the processes of a job take, now and since they are watched; what leaks.
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/query_client.h"

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

Result<std::string> FindLeaks(const Invocation& invocation, const std::string& format) {
  constexpr double kDefaultSeconds = 4;
  ASSIGN_OR_RETURN(const double seconds, invocation.GetNumber("--duration", kDefaultSeconds));
  const auto pause_us = static_cast<std::int64_t>(seconds * 1e6 / (kCounts - 1));
  for (int i = 1; i < kCounts; ++i) {
    ASSIGN_OR_RETURN(const std::string answer,
                     Query({.target = invocation.target, .sql = kCountSql, .format = "csv"}));
    // With census=on the job has counted itself, at the ends of steps: no need to wait, unless one wants to.
    const bool known = answer.find("\n0") == std::string::npos;
    if (known && !invocation.Has("--duration")) break;
    SleepUs(pause_us);
  }
  return Query({.target = invocation.target, .sql = kLeaksSql, .format = format});
}

Result<int> Run(const Invocation& invocation) {
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
  ASSIGN_OR_RETURN(const std::string answer, FindLeaks(invocation, format));
  Print(answer);
  return 0;
}

}  // namespace

Command MemoryCommand() {
  return {.name = "memory",
          .summary = "What the processes of a target take, how that grew, what leaks",
          .example = "probing -t 1234 memory --leaks",
          .target = TargetUse::kOptional,
          .all_is_fine = true,
          .options = {{"--leaks", "", "what there is more and more of, and who holds it"},
                      {"-d,--duration", "SECONDS", "how long to look for leaks (4)"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
