// The ranks of this host's jobs, found in /proc: nothing needs to be probed for that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "process/job_identity.h"

namespace probing::cli {

// All ranks of a job that are on this host; "" means the only job there is.
Result<std::vector<process::RankProcess>> RanksOfJob(const std::string& job);

// The one process that does the work of this rank.
Result<pid_t> FindRank(std::int64_t rank);

}  // namespace probing::cli
