#include "cli/job.h"

#include <set>

namespace probing::cli {

using process::RankProcess;

Result<std::vector<RankProcess>> RanksOfJob(const std::string& job) {
  std::vector<RankProcess> ranks = process::FindRanks();
  std::set<std::string> jobs;
  for (const RankProcess& rank : ranks) jobs.insert(rank.identity.job);
  std::string names;
  for (const std::string& name : jobs) names += (names.empty() ? "" : ", ") + ("job:" + name);
  if (jobs.empty()) {
    return Error{
        Code::kNotFound, "no process of this host belongs to a job that we may look into",
        "ranks are found by the variables of torchrun, Slurm, Open MPI, PMI and Kubernetes; name one "
        "process with -t PID"};
  }
  if (job.empty() && jobs.size() > 1)
    return Error{Code::kUsage, "there are several jobs on this host", "name one with -t: " + names};
  std::erase_if(ranks, [&](const RankProcess& rank) { return !job.empty() && rank.identity.job != job; });
  if (ranks.empty())
    return Error{Code::kNotFound, "there is no job " + job + " on this host", "here are " + names};
  return ranks;
}

Result<pid_t> FindRank(std::int64_t rank) {
  std::string pids;
  std::string others;
  pid_t found = 0;
  int count = 0;
  for (const RankProcess& each : process::FindRanks()) {
    others += (others.empty() ? "" : ", ") + std::to_string(*each.identity.rank);
    if (each.identity.rank != rank) continue;
    found = each.pid;
    pids += (count++ > 0 ? ", " : "") + std::to_string(each.pid) + " (job " + each.identity.job + ")";
  }
  const std::string name = "rank " + std::to_string(rank);
  if (count == 0) {
    return Error{
        Code::kNotFound, "there is no " + name + " on this host",
        others.empty() ? "no process here has a rank that we may look into" : "here are ranks " + others};
  }
  if (count > 1)
    return Error{Code::kUsage, "there are several processes of " + name, "name one by its pid: " + pids};
  return found;
}

}  // namespace probing::cli
