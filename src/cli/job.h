// The ranks of jobs: found in /proc, where nothing needs to be probed for that, and by a probingd that runs,
// which knows those that only torch.distributed inside has told, and those of other hosts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/target.h"
#include "process/job_identity.h"

namespace probing::cli {

// All ranks of a job that are on this host; "" means the only job there is.
Result<std::vector<process::RankProcess>> RanksOfJob(const std::string& job);

// The full name of the job that is meant by `name`: that name, or the only one that begins with it
// ("train.py" for "train.py-1118-2031-4711"). `name` itself where there is none.
std::string FullJobName(const std::string& name);

// The one process that does the work of this rank. Where it runs on another host that probingd knows,
// `endpoint` is the probingd there.
struct FoundRank {
  pid_t pid = 0;
  std::optional<Endpoint> endpoint;
};
Result<FoundRank> FindRank(std::int64_t rank);

// All ranks of a job, those of this host first, then those of other hosts that a probingd here knows.
struct PlacedRank {
  process::RankProcess process;
  std::optional<Endpoint> endpoint;  // the probingd of another host
  double clock_ahead_ms = 0;         // the clock there, as far as it was measured
  double clock_error_ms = 0;
};
struct JobRanks {
  std::string job;
  std::vector<PlacedRank> ranks;
  bool is_partial = false;            // hosts did not say whether they have any
  std::vector<std::string> problems;  // "node03:3344: why"
};
// What is asked of a daemon after this may go to another host (UseDaemonAt).
Result<JobRanks> FindJobRanks(const std::string& job);

// Runs something for each rank of a job, each in a process of its own, because commands are about one target:
// one after the other under a heading; those of this host first, then those of other hosts
// that a probingd here knows, whose probingd `endpoint` is. With `json` stdout becomes an array with an
// object {rank, pid, answer} of each, `node` for another host, `error` in the place of an answer that is
// missing. Returns the exit code: 6 when some failed, or when hosts did not say whether they have any.
struct EachRankOptions {
  bool json = false;
  bool elsewhere = false;  // the command can be told to another host
};
using RunForRank =
    std::function<Result<int>(const process::RankProcess& rank, const std::optional<Endpoint>& endpoint)>;
Result<int> ForEachRank(const std::string& job, const EachRankOptions& options, const RunForRank& run);

}  // namespace probing::cli
