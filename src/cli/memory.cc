// probing memory: what the processes of a job take, now and since they are watched.
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

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string answer, Query({.target = invocation.target,
                                                    .sql = kSql,
                                                    .format = invocation.Has("--json") ? "json" : "table"}));
  Print(answer);
  return 0;
}

}  // namespace

Command MemoryCommand() {
  return {.name = "memory",
          .summary = "What the processes of a target take, and how that grew",
          .example = "probing -t 1234 memory",
          .target = TargetUse::kOptional,
          .all_is_fine = true,
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
