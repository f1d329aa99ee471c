// probing cluster: one look at all ranks. `backtrace` puts ranks with the same stack together, so that
// the one which is elsewhere stands out; `nodes` lists the hosts.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/ranges.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/query_client.h"

namespace probing::cli {
namespace {

constexpr const char* kStacks =
    "SELECT processes, ranks, pids, innermost, stack, job FROM global.cluster.stacks ORDER BY job, processes "
    "DESC, pids";
// Ranks that should be among them.
constexpr const char* kExpected =
    "SELECT DISTINCT job, rank, state FROM global.probing.targets WHERE job_role = 'rank' ORDER BY job, rank";
constexpr const char* kNodes =
    "SELECT host, node, state, version, ranks, round(clock_offset_ms, 3) AS clock_offset_ms,"
    " round(clock_error_ms, 3) AS clock_error_ms, found_by, epoch, problem FROM cluster.nodes ORDER BY host, "
    "node";
constexpr const char* kDown = "SELECT count(*) AS down FROM cluster.nodes WHERE state <> 'up'";

constexpr std::size_t kJobBytes = 200;

// Remembers in `is_partial` that hosts were missing.
Result<Json> Ask(const Invocation& invocation, const char* sql, bool& is_partial) {
  Question question;
  question.directory = invocation.directory;
  question.sql = sql;
  question.format = "json";
  ASSIGN_OR_RETURN(const Bytes answer, QueryHosts(question));
  is_partial = is_partial || answer.is_partial;
  Json rows = Json::parse(answer.bytes, nullptr, false);
  if (!rows.is_array()) return Error{Code::kFailed, "probingd's answer is damaged", ""};
  return rows;
}

// A list comes as its text.
std::vector<std::int64_t> ParseList(const Json& group, const char* field) {
  std::vector<std::int64_t> numbers;
  const Json list = Json::parse(group.value(field, "[]"), nullptr, false);
  for (const Json& each : list.is_array() ? list : Json::array()) {
    if (each.is_number_integer()) numbers.push_back(each.get<std::int64_t>());
  }
  return numbers;
}

// "61 ranks (0-16, 18-61) in all_reduce"
std::string Title(const Json& group) {
  const std::vector<std::int64_t> ranks = group["ranks"];
  std::string text;
  if (!ranks.empty())
    text = std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank (" : " ranks (") +
           Ranges({ranks.begin(), ranks.end()}) + ")";
  const std::vector<std::int64_t> pids = group["pids"];
  if (pids.size() > ranks.size()) {  // some have no rank
    const std::string count = std::to_string(pids.size());
    text = ranks.empty() ? count + (pids.size() == 1 ? " process (" : " processes (") +
                               Ranges({pids.begin(), pids.end()}) + ")"
                         : text + " of " + count + " processes";
  }
  return text + " in " + group.value("innermost", "no Python code");
}

std::string Indented(const std::string& stack) {
  std::string text = "    ";
  for (const char c : stack) text += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return text + "\n";
}

using Ranks = std::map<std::string, std::set<std::int64_t>>;  // by job

std::string JobIn(const Json& row) {
  const Json job = row.value("job", Json());
  return job.is_string() ? job.get<std::string>() : "";
}

std::set<std::int64_t> AllOf(const Ranks& ranks) {
  std::set<std::int64_t> all;
  for (const auto& [job, some] : ranks) all.insert(some.begin(), some.end());
  return all;
}

std::string Named(const std::string& job, const std::set<std::int64_t>& ranks, bool with_job) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + Ranges({ranks.begin(), ranks.end()}) +
         (with_job ? " of job " + OneLine(job, kJobBytes) : "");
}

Result<int> Backtrace(const Invocation& invocation) {
  bool is_partial = false;
  ASSIGN_OR_RETURN(Json groups, Ask(invocation, kStacks, is_partial));
  ASSIGN_OR_RETURN(const Json expected, Ask(invocation, kExpected, is_partial));
  Ranks missing;
  Ranks ended;
  std::set<std::string> jobs;
  for (const Json& row : expected)
    (row.value("state", "") == "ended" ? ended : missing)[JobIn(row)].insert(
        row.value("rank", std::int64_t{-1}));
  for (Json& group : groups) {
    for (const char* field : {"ranks", "pids"}) group[field] = ParseList(group, field);
    const std::string job = JobIn(group);
    jobs.insert(job);
    for (const std::int64_t rank : group["ranks"]) missing[job].erase(rank), ended[job].erase(rank);
  }
  for (Ranks* ranks : {&missing, &ended})
    std::erase_if(*ranks, [](const auto& each) { return each.second.empty(); });
  const int code = missing.empty() && !is_partial ? 0 : static_cast<int>(Code::kPartial);
  if (invocation.Has("--json")) {
    Print(FormatJson({{"groups", groups}, {"ended", AllOf(ended)}, {"missing", AllOf(missing)}}));
    return code;
  }
  if (groups.empty()) {
    PrintAside(
        "no probed process has a Python stack\n  hint: `probing inject --job` probes all ranks of this "
        "host\n");
  }
  std::optional<std::string> shown;
  for (const Json& group : groups) {
    const std::string job = JobIn(group);
    if (jobs.size() > 1 && shown != job)
      Print(job.empty() ? "outside a job:\n" : "job " + OneLine(job, kJobBytes) + ":\n");
    shown = job;
    Print(Painted(Title(group), Colour::kBold) + "\n" + Indented(group.value("stack", "")));
  }
  for (const auto& [job, ranks] : ended)
    PrintAside(Named(job, ranks, jobs.size() > 1) + (ranks.size() == 1 ? " has ended\n" : " have ended\n"));
  for (const auto& [job, ranks] : missing)
    PrintAside(Named(job, ranks, jobs.size() > 1) + " did not show a stack\n");
  return code;
}

Result<int> Nodes(const Invocation& invocation) {
  Question question;
  question.directory = invocation.directory;
  question.sql = kNodes;
  question.format = invocation.Has("--json") ? "json" : "table";
  ASSIGN_OR_RETURN(const std::string answer, Query(question));
  Print(answer);
  bool is_partial = false;
  ASSIGN_OR_RETURN(const Json down, Ask(invocation, kDown, is_partial));
  return down.empty() || down[0].value("down", 0) == 0 ? 0 : static_cast<int>(Code::kPartial);
}

Result<int> Run(const Invocation& invocation) {
  const std::string what = invocation.arguments.empty() ? "nodes" : invocation.arguments[0];
  if (what == "backtrace" || what == "bt") return Backtrace(invocation);
  if (what == "nodes") return Nodes(invocation);
  return Error{
      Code::kUsage, "cluster knows no \"" + what + "\"",
      "`probing cluster backtrace` groups the stacks of all ranks, `probing cluster nodes` lists hosts"};
}

}  // namespace

Command ClusterCommand() {
  return {.name = "cluster",
          .summary = "Show all ranks at once: grouped stacks, hosts",
          .example = "probing cluster backtrace",
          .target = TargetUse::kOptional,
          .target_may_be_directory = true,
          .all_is_fine = true,
          .arguments = Arguments::kOne,
          .options = {{"WORD", "", "nodes (default) or backtrace"}, {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
