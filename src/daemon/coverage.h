// What a diagnosis could see: the ranks of each job, which of them are probed, and whether their collectives
// are known.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api.h"
#include "process/job_identity.h"

namespace probing::daemon {

struct Coverage {
  // [{job, ranks, probed, not_probed, unknown, collectives, next}]: `ranks` is how many the job has, the
  // others are lists of ranks; `unknown` are those that no asked host has; `collectives` is yes, partly or
  // no; `next` is the command that probes the rest, or "".
  server::Json jobs = server::Json::array();
  // {host, pid, job} of each rank, for findings that know a process only.
  server::Json processes = server::Json::array();

  // Whether every rank that runs here has a probe.
  bool AllProbed() const;
  // The job of a process; "" for one outside a job.
  std::string JobOf(const std::string& host, const server::Json& pids) const;
};

// `local` are the ranks of this host, probed or not. With a target only its job.
boost::asio::awaitable<Coverage> SeeCoverage(Daemon& daemon, const std::vector<process::RankProcess>& local,
                                             std::optional<pid_t> target);

}  // namespace probing::daemon
