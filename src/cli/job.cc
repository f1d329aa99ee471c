#include "cli/job.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>

#include "base/quote.h"
#include "base/scoped_fd.h"
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

// A rank that may be on another host: then `endpoint` is the probingd there.
struct PlacedRank {
  RankProcess process;
  std::optional<Endpoint> endpoint;
};
struct Elsewhere {
  std::vector<PlacedRank> ranks;
  bool is_partial = false;  // hosts did not answer
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
      "SELECT DISTINCT node FROM cluster.nodes WHERE found_by <> 'itself' AND state = 'up' AND host IN "
      "(SELECT host FROM global.probing.targets WHERE job_role = 'rank' AND state <> 'ended' AND " +
      condition + ") ORDER BY node";
  ASSIGN_OR_RETURN(const Bytes answer, QueryHosts(question));
  found.is_partial = answer.is_partial;
  const Json nodes = Json::parse(answer.bytes, nullptr, false);
  for (const Json& row : nodes.is_array() ? nodes : Json::array()) {
    ASSIGN_OR_RETURN(wire::Address address, wire::ParseAddress(row.value("node", "")));
    UseDaemonAt(Endpoint{address, ""});
    ASSIGN_OR_RETURN(const Json there, GetFromDaemon(std::string(wire::kTargetsRoute)));
    for (const Json& target : there.value("targets", Json::array())) {
      const process::JobIdentity identity = IdentityIn(target);
      if (identity.role != process::JobRole::kRank || !identity.rank || !is_meant(identity)) continue;
      if (target.value("state", "") == "live")
        found.ranks.push_back({{target.value("pid", 0), identity}, Endpoint{address, ""}});
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
    for (const auto& [process, endpoint] : elsewhere.ranks) {
      names += (names.empty() ? "" : ", ") + endpoint->ToText() + "/" + std::to_string(process.pid) +
               " (job " + process.identity.job + ")";
    }
    return Error{Code::kUsage, "there are several processes of rank " + std::to_string(rank),
                 "name one: " + names};
  }
  const PlacedRank& only = elsewhere.ranks.front();
  return std::optional<FoundRank>({only.process.pid, only.endpoint});
}

struct Child {
  pid_t pid = -1;
  ScopedFd out;  // what it prints, when that is collected
};

Result<Child> Start(const PlacedRank& rank, const EachRankOptions& options, const RunForRank& run) {
  std::array<int, 2> ends{-1, -1};
  if (options.json && pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("make a pipe");
  ScopedFd read_end(ends[0]);
  ScopedFd write_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoError("start a process");
  if (pid == 0) {
    if (write_end.valid()) dup2(write_end.get(), STDOUT_FILENO);
    const Result<int> code = run(rank.process, rank.endpoint);
    _exit(code.ok() ? *code : PrintError(code.error()));
  }
  return Child{pid, std::move(read_end)};
}

struct Outcome {
  int code = 0;
  std::string out;
};

Outcome Await(Child child) {
  Outcome outcome;
  std::array<char, 65536> bytes;
  while (child.out.valid()) {
    const ssize_t got = read(child.out.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    outcome.out.append(bytes.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Code::kFailed);
  return outcome;
}

}  // namespace

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
  std::vector<Child> children;
  std::vector<Outcome> outcomes;
  const auto start = [&](PlacedRank rank) -> Result<void> {
    if (!options.json && !options.at_once) {
      Print(Painted("rank " + std::to_string(*rank.process.identity.rank) + " (process " +
                        (rank.endpoint ? rank.endpoint->ToText() + "/" : "") +
                        std::to_string(rank.process.pid) + ")",
                    Colour::kBold) +
            "\n");
    }
    ASSIGN_OR_RETURN(Child child, Start(rank, options, run));
    ranks.push_back(std::move(rank));
    children.push_back(std::move(child));
    if (!options.at_once) outcomes.push_back(Await(std::move(children.back())));
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
    for (PlacedRank& rank : elsewhere.ranks) RETURN_IF_ERROR(start(std::move(rank)));
  }
  if (ranks.empty() && !here.ok()) return std::move(here.error());
  if (options.at_once) {
    for (Child& child : children) outcomes.push_back(Await(std::move(child)));
  }
  Json list = Json::array();
  std::size_t failed = 0;
  int code = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Outcome& outcome = outcomes[i];
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
