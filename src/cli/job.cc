#include "cli/job.h"

#include <set>

#include "base/quote.h"
#include "cli/child.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

using process::RankProcess;

Json KnownTargets() {
  const std::optional<Json> answer = AskRunningDaemon(std::string(wire::kTargetsRoute));
  return answer ? answer->value("targets", Json::array()) : Json::array();
}

// What a daemon says about the job of a target.
process::JobIdentity IdentityIn(const Json& target) {
  process::JobIdentity identity;
  const Json job = target.value("job", Json::object());
  identity.job = job.value("name", "");
  if (const Json rank = job.value("rank", Json()); rank.is_number_integer())
    identity.rank = rank.get<std::int64_t>();
  if (const Json world = job.value("world_size", Json()); world.is_number_integer())
    identity.world_size = world.get<std::int64_t>();
  if (job.value("role", Json()) == "rank") identity.role = process::JobRole::kRank;
  return identity;
}

// Those that say so by their variables, and those that a probe has asked torch.distributed for.
std::vector<RankProcess> AllRanks() {
  std::vector<RankProcess> ranks = process::FindRanks();
  std::set<pid_t> known;
  for (const RankProcess& rank : ranks) known.insert(rank.pid);
  for (const Json& target : KnownTargets()) {
    RankProcess rank{target.value("pid", 0), IdentityIn(target)};
    const bool is_rank = rank.identity.role == process::JobRole::kRank && rank.identity.rank.has_value();
    if (is_rank && target.value("state", "") == "live" && !known.contains(rank.pid))
      ranks.push_back(std::move(rank));
  }
  return ranks;
}

double NumberIn(const Json& row, const char* name) {
  const Json number = row.value(name, Json());
  return number.is_number() ? number.get<double>() : 0;
}

std::string JobList(const std::set<std::string>& jobs) {
  std::string names;
  for (const std::string& name : jobs) names += (names.empty() ? "" : ", ") + ("job:" + name);
  return names;
}

// The only one of `names` that is `name`, or begins with it; "" where there is none, or several.
std::string Matching(const std::set<std::string>& names, const std::string& name) {
  if (names.contains(name)) return name;
  std::string found;
  for (const std::string& each : names) {
    if (!each.starts_with(name)) continue;
    if (!found.empty()) return "";
    found = each;
  }
  return found;
}

bool KnowsOtherHosts() {
  const std::optional<Json> config = AskRunningDaemon(std::string(wire::kConfigRoute));
  for (const Json& setting : config ? config->value("settings", Json::array()) : Json::array()) {
    if (setting.value("name", "") == "probing.cluster.peers" && setting.value("value", "none") != "none")
      return true;
  }
  return false;
}

struct Elsewhere {
  std::vector<PlacedRank> ranks;
  bool is_partial = false;            // hosts did not answer
  std::vector<std::string> problems;  // of those that did at first
};

// Live ranks on other hosts, when a probingd here knows some. `condition` is one of probing.targets. What is
// asked after this goes to another host: see UseDaemonAt().
Result<Elsewhere> FindElsewhere(const std::string& condition,
                                const std::function<bool(const process::JobIdentity&)>& is_meant) {
  Elsewhere found;
  if (!KnowsOtherHosts()) return found;
  // Two hosts may call themselves the same: each that may have it is asked itself.
  Question question;
  question.format = "json";
  question.sql =
      "SELECT DISTINCT node, clock_offset_ms, clock_error_ms FROM cluster.nodes WHERE found_by <> 'itself' "
      "AND state = 'up' AND host IN "
      "(SELECT host FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended' AND " +
      condition + ") ORDER BY node";
  ASSIGN_OR_RETURN(const Bytes answer, QueryHosts(question));
  found.is_partial = answer.is_partial;
  const Json nodes = Json::parse(answer.bytes, nullptr, false);
  for (const Json& row : nodes.is_array() ? nodes : Json::array()) {
    ASSIGN_OR_RETURN(wire::Address address, wire::ParseAddress(row.value("node", "")));
    UseDaemonAt(Endpoint{address, ""});
    const Result<Json> there = GetFromDaemon(std::string(wire::kTargetsRoute));
    if (!there.ok()) {
      found.is_partial = true;
      found.problems.push_back(address.ToText() + ": " + there.error().message);
      continue;
    }
    for (const Json& target : there->value("targets", Json::array())) {
      const process::JobIdentity identity = IdentityIn(target);
      if (identity.role != process::JobRole::kRank || !identity.rank || !is_meant(identity)) continue;
      if (target.value("state", "") == "live")
        found.ranks.push_back({{target.value("pid", 0), identity},
                               Endpoint{address, ""},
                               NumberIn(row, "clock_offset_ms"),
                               NumberIn(row, "clock_error_ms")});
    }
  }
  return found;
}

Result<std::optional<FoundRank>> FindRankElsewhere(std::int64_t rank) {
  ASSIGN_OR_RETURN(const Elsewhere elsewhere,
                   FindElsewhere("rank = " + std::to_string(rank), [&](const process::JobIdentity& identity) {
                     return identity.rank == rank;
                   }));
  if (elsewhere.ranks.empty()) return std::optional<FoundRank>();
  if (elsewhere.ranks.size() > 1) {
    std::string names;
    for (const PlacedRank& rank : elsewhere.ranks) {
      names += (names.empty() ? "" : ", ") + rank.endpoint->ToText() + "/" +
               std::to_string(rank.process.pid) + " (job " + rank.process.identity.job + ")";
    }
    return Error{Code::kUsage, "there are several processes of rank " + std::to_string(rank),
                 "name one: " + names};
  }
  const PlacedRank& only = elsewhere.ranks.front();
  return std::optional<FoundRank>({only.process.pid, only.endpoint});
}

}  // namespace

Result<JobRanks> FindJobRanks(const std::string& job) {
  Result<std::vector<RankProcess>> here = RanksOfJob(job);
  JobRanks found;
  found.job = here.ok() ? here->front().identity.job : job;
  for (RankProcess& rank : here.ok() ? *here : std::vector<RankProcess>{})
    found.ranks.push_back({std::move(rank), std::nullopt});
  if (!found.job.empty()) {
    const auto is_meant = [&](const process::JobIdentity& identity) { return identity.job == found.job; };
    ASSIGN_OR_RETURN(Elsewhere elsewhere, FindElsewhere("job = " + QuoteForSql(found.job), is_meant));
    found.is_partial = elsewhere.is_partial;
    found.problems = std::move(elsewhere.problems);
    for (PlacedRank& rank : elsewhere.ranks) found.ranks.push_back(std::move(rank));
  }
  if (found.ranks.empty() && !here.ok()) return std::move(here.error());
  return found;
}

Result<std::vector<RankProcess>> RanksOfJob(const std::string& job) {
  std::vector<RankProcess> ranks = AllRanks();
  std::set<std::string> jobs;
  for (const RankProcess& rank : ranks) jobs.insert(rank.identity.job);
  if (jobs.empty()) {
    return Error{
        Code::kNotFound, "no process of this host belongs to a job that we may look into",
        "ranks are found by the variables of torchrun, Slurm, Open MPI, PMI, Ray and Kubernetes; name one "
        "process with -t PID"};
  }
  if (job.empty() && jobs.size() > 1)
    return Error{Code::kUsage, "there are several jobs on this host", "name one with -t: " + JobList(jobs)};
  const std::string name = job.empty() ? *jobs.begin() : Matching(jobs, job);
  std::erase_if(ranks, [&](const RankProcess& rank) { return rank.identity.job != name; });
  if (ranks.empty())
    return Error{Code::kNotFound, "there is no job " + job + " on this host", "here are " + JobList(jobs)};
  return ranks;
}

std::string FullJobName(const std::string& name) {
  std::set<std::string> jobs;
  for (const RankProcess& rank : process::FindRanks()) jobs.insert(rank.identity.job);
  // Also those that have ended.
  for (const Json& target : KnownTargets()) {
    const Json job = target.value("job", Json::object());
    if (job.value("role", Json()).is_string()) jobs.insert(job.value("name", ""));
  }
  const std::string found = Matching(jobs, name);
  return found.empty() ? name : found;
}

Result<FoundRank> FindRank(std::int64_t rank) {
  std::string pids;
  std::string others;
  pid_t found = 0;
  int count = 0;
  for (const RankProcess& each : AllRanks()) {
    others += (others.empty() ? "" : ", ") + std::to_string(*each.identity.rank);
    if (each.identity.rank != rank) continue;
    found = each.pid;
    pids += (count++ > 0 ? ", " : "") + std::to_string(each.pid) + " (job " + each.identity.job + ")";
  }
  const std::string name = "rank " + std::to_string(rank);
  if (count == 0) {
    ASSIGN_OR_RETURN(std::optional<FoundRank> elsewhere, FindRankElsewhere(rank));
    if (elsewhere) return std::move(*elsewhere);
    return Error{Code::kNotFound, "there is no " + name + " on this host",
                 others.empty()
                     ? "no process here has a rank that we may look into"
                     : "here are ranks " + others +
                           "; those of other hosts are found when probing.cluster.peers names them"};
  }
  if (count > 1)
    return Error{Code::kUsage, "there are several processes of " + name, "name one by its pid: " + pids};
  return FoundRank{found, std::nullopt};
}

Result<int> ForEachRank(const std::string& job, const EachRankOptions& options, const RunForRank& run) {
  std::vector<PlacedRank> ranks;
  std::vector<ChildOutcome> outcomes;
  const auto start = [&](PlacedRank rank) -> Result<void> {
    if (!options.json) {
      Print(Painted("rank " + std::to_string(*rank.process.identity.rank) + " (process " +
                        (rank.endpoint ? rank.endpoint->ToText() + "/" : "") +
                        std::to_string(rank.process.pid) + ")",
                    Colour::kBold) +
            "\n");
    }
    ASSIGN_OR_RETURN(Child child, StartChild(options.json, [&] {
                       const Result<int> code = run(rank.process, rank.endpoint);
                       return code.ok() ? *code : PrintError(code.error());
                     }));
    ranks.push_back(std::move(rank));
    outcomes.push_back(Await(std::move(child)));
    return {};
  };
  Result<std::vector<RankProcess>> here = RanksOfJob(job);
  std::string name = job;
  for (RankProcess& rank : here.ok() ? *here : std::vector<RankProcess>{}) {
    name = rank.identity.job;
    RETURN_IF_ERROR(start({std::move(rank), std::nullopt}));
  }
  bool is_partial = false;
  if (options.elsewhere && !name.empty()) {
    ASSIGN_OR_RETURN(Elsewhere elsewhere,
                     FindElsewhere("job = " + QuoteForSql(name), [&](const process::JobIdentity& identity) {
                       return identity.job == name;
                     }));
    is_partial = elsewhere.is_partial;
    for (const std::string& problem : elsewhere.problems) PrintAside("probing:   " + problem + "\n");
    for (PlacedRank& rank : elsewhere.ranks) RETURN_IF_ERROR(start(std::move(rank)));
  }
  if (ranks.empty() && !here.ok()) return std::move(here.error());
  Json list = Json::array();
  std::size_t failed = 0;
  int code = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const ChildOutcome& outcome = outcomes[i];
    if (outcome.code != 0 && failed++ == 0) code = outcome.code;
    Json entry{{"rank", *ranks[i].process.identity.rank}, {"pid", ranks[i].process.pid}};
    if (ranks[i].endpoint) entry["node"] = ranks[i].endpoint->ToText();
    const Json answer = Json::parse(outcome.out, nullptr, false);
    if (answer.is_discarded())
      entry["error"] = outcome.code;
    else
      entry["answer"] = answer;
    list.push_back(std::move(entry));
  }
  if (options.json) Print(FormatJson(list));
  if (failed == 0) return is_partial ? static_cast<int>(Code::kPartial) : 0;
  return failed == ranks.size() ? code : static_cast<int>(Code::kPartial);
}

}  // namespace probing::cli
