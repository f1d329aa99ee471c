#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr std::size_t kCommandBytes = 200;

using Row = std::vector<std::string>;

Row Cells(const Json& target) {
  const std::int64_t started_ns = target.value("started_ns", std::int64_t{0});
  return {std::to_string(target.value("pid", 0)),
          target.value("user", ""),
          target.value("state", ""),
          target.value("python", ""),
          target.value("how", ""),
          started_ns != 0 ? FormatDuration((WallNs() - started_ns) / 1'000'000'000) : "",
          OneLine(target.value("command", ""), kCommandBytes)};
}

// One process of a job; those of the same rank stand together, its workers behind it.
struct Member {
  std::int64_t rank = -1;  // launchers come first
  std::string role;
  const Json* target = nullptr;
};
using Jobs = std::map<std::string, std::vector<Member>>;

// Puts the processes that belong to a job into `jobs`; the others are returned.
std::vector<const Json*> SortOut(const Json& targets, Jobs& jobs) {
  std::vector<const Json*> alone;
  for (const Json& target : targets) {
    const Json job = target.value("job", Json::object());
    const Json role = job.value("role", Json());
    if (!role.is_string()) {
      alone.push_back(&target);
      continue;
    }
    const Json rank = job.value("rank", Json());
    jobs[job.value("name", "")].push_back(
        {rank.is_number_integer() ? rank.get<std::int64_t>() : -1, role.get<std::string>(), &target});
  }
  for (auto& [name, members] : jobs) {
    std::ranges::stable_sort(members, [](const Member& a, const Member& b) {
      return std::pair(a.rank, a.role == "worker") < std::pair(b.rank, b.role == "worker");
    });
  }
  return alone;
}

// "night-run: 4 of 8 ranks"
std::string Title(const std::string& name, const std::vector<Member>& members) {
  std::set<std::int64_t> ranks;
  Json world;
  for (const Member& member : members) {
    if (member.rank >= 0) ranks.insert(member.rank);
    const Json size = (*member.target)["job"].value("world_size", Json());
    if (size.is_number_integer()) world = size;
  }
  const std::string of = world.is_null() ? "" : " of " + world.dump();
  return OneLine(name, kCommandBytes) + ": " + std::to_string(ranks.size()) + of +
         (world == 1 || (world.is_null() && ranks.size() == 1) ? " rank" : " ranks");
}

void AddJob(const std::string& name, const std::vector<Member>& members, std::vector<Row>& rows) {
  rows.push_back({Painted(Title(name, members), Colour::kBold)});
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    const bool is_worker = member.role == "worker";
    bool more_ranks = false;
    for (std::size_t j = i + 1; j < members.size(); ++j) more_ranks |= members[j].role != "worker";
    std::string label = more_ranks ? "├ " : "└ ";
    if (is_worker) label = more_ranks ? "│ └ " : "  └ ";
    label += member.role == "rank" ? "rank " + std::to_string(member.rank) : member.role;
    const Json parallel = (*member.target)["job"].value("parallel", Json::object());
    for (const auto& [part, number] : parallel.items()) label += " " + part + number.dump();
    Row row{std::move(label)};
    for (std::string& cell : Cells(*member.target)) row.push_back(std::move(cell));
    rows.push_back(std::move(row));
  }
}

std::string Describe(const Json& targets) {
  Row header{"PID", "USER", "STATE", "PYTHON", "HOW", "FOR", "COMMAND"};
  Jobs jobs;
  const std::vector<const Json*> alone = SortOut(targets, jobs);
  std::vector<Row> rows;
  for (const auto& [name, members] : jobs) AddJob(name, members, rows);
  for (const Json* target : alone) {
    rows.push_back(Cells(*target));
    if (!jobs.empty()) rows.back().insert(rows.back().begin(), "");
  }
  if (!jobs.empty()) header.insert(header.begin(), "JOB");
  return FormatTable(header, rows);
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Json answer, GetFromDaemon(std::string(wire::kTargetsRoute)));
  Json targets = Json::array();
  for (const Json& target : answer.value("targets", Json::array())) {
    const Json job = target.value("job", Json::object());
    const bool is_of_job =
        job.value("role", Json()).is_string() && job.value("name", "") == invocation.job.value_or("");
    const bool is_wanted = !invocation.target || target.value("pid", 0) == *invocation.target;
    if (is_wanted && (!invocation.job || invocation.job->empty() || is_of_job)) targets.push_back(target);
  }
  if (invocation.Has("--json")) {
    Print(FormatJson(targets));
    return 0;
  }
  if (targets.empty()) {
    const std::string of_job = invocation.job.value_or("").empty() ? "" : " of job " + *invocation.job;
    PrintAside("no process " + (of_job.empty() ? "of yours" : of_job.substr(1)) +
               " is probed on this host\n  hint: `probing -t PID inject` probes one, `probing inject --job` "
               "all ranks of a job\n");
    return 0;
  }
  Print(Describe(targets));
  return 0;
}

}  // namespace

Command ListCommand() {
  return {.name = "list",
          .alias = "ls",
          .summary = "List the probed processes of this host",
          .example = "probing list --json",
          .target = TargetUse::kOptional,
          .target_may_have_ended = true,
          .target_may_be_job = true,
          .all_is_fine = true,
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
