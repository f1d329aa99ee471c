// probing cluster: one look at all ranks. `backtrace` puts ranks with the same stack together, so that
// the one which is elsewhere stands out; `nodes` lists the hosts.
#include <algorithm>
#include <set>

#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/query_client.h"

namespace probing::cli {
namespace {

constexpr const char* kStacks =
    "SELECT processes, ranks, pids, innermost, stack FROM global.cluster.stacks ORDER BY processes DESC, "
    "pids";
// Ranks that should be among them.
constexpr const char* kExpected =
    "SELECT DISTINCT rank, state FROM global.probing.targets WHERE job_role = 'rank' ORDER BY rank";
constexpr const char* kNodes =
    "SELECT host, node, state, version, ranks, round(clock_offset_ms, 3) AS clock_offset_ms,"
    " round(clock_error_ms, 3) AS clock_error_ms, found_by, epoch, problem FROM cluster.nodes ORDER BY host, "
    "node";
constexpr const char* kDown = "SELECT count(*) AS down FROM cluster.nodes WHERE state <> 'up'";

// Remembers in `is_partial` that hosts were missing.
Result<Json> Ask(const char* sql, bool& is_partial) {
  Question question;
  question.sql = sql;
  question.format = "json";
  ASSIGN_OR_RETURN(const Bytes answer, QueryHosts(question));
  is_partial = is_partial || answer.is_partial;
  Json rows = Json::parse(answer.bytes, nullptr, false);
  if (!rows.is_array()) return Error{Code::kFailed, "probingd's answer is damaged", ""};
  return rows;
}

// [0, 1, 2, 5] becomes "0-2, 5".
std::string Ranges(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (last > i) text += (last > i + 1 ? "-" : ", ") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
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
    text = std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank (" : " ranks (") + Ranges(ranks) + ")";
  std::vector<std::int64_t> pids = group["pids"];
  if (pids.size() > ranks.size()) {  // some have no rank
    const std::string count = std::to_string(pids.size());
    std::ranges::sort(pids);
    text = ranks.empty() ? count + (pids.size() == 1 ? " process (" : " processes (") + Ranges(pids) + ")"
                         : text + " of " + count + " processes";
  }
  return text + " in " + group.value("innermost", "no Python code");
}

std::string Indented(const std::string& stack) {
  std::string text = "    ";
  for (const char c : stack) text += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return text + "\n";
}

Result<int> Backtrace(const Invocation& invocation) {
  bool is_partial = false;
  ASSIGN_OR_RETURN(Json groups, Ask(kStacks, is_partial));
  ASSIGN_OR_RETURN(const Json expected, Ask(kExpected, is_partial));
  std::set<std::int64_t> missing;
  std::set<std::int64_t> ended;
  for (const Json& row : expected)
    (row.value("state", "") == "ended" ? ended : missing).insert(row.value("rank", std::int64_t{-1}));
  for (Json& group : groups) {
    for (const char* field : {"ranks", "pids"}) group[field] = ParseList(group, field);
    for (const std::int64_t rank : group["ranks"]) missing.erase(rank), ended.erase(rank);
  }
  if (invocation.Has("--json")) {
    Print(FormatJson({{"groups", groups}, {"ended", ended}, {"missing", missing}}));
    return missing.empty() && !is_partial ? 0 : static_cast<int>(Code::kPartial);
  }
  if (groups.empty()) {
    PrintAside(
        "no probed process has a Python stack\n  hint: `probing inject --job` probes all ranks of this "
        "host\n");
  }
  for (const Json& group : groups) {
    Print(Painted(Title(group), Colour::kBold) + "\n" + Indented(group.value("stack", "")));
  }
  const auto list = [](const std::set<std::int64_t>& ranks) {
    return (ranks.size() == 1 ? "rank " : "ranks ") + Ranges({ranks.begin(), ranks.end()});
  };
  if (!ended.empty()) PrintAside(list(ended) + (ended.size() == 1 ? " has ended\n" : " have ended\n"));
  if (missing.empty()) return is_partial ? static_cast<int>(Code::kPartial) : 0;
  PrintAside(list(missing) + " did not show a stack\n");
  return static_cast<int>(Code::kPartial);
}

Result<int> Nodes(const Invocation& invocation) {
  Question question;
  question.sql = kNodes;
  question.format = invocation.Has("--json") ? "json" : "table";
  ASSIGN_OR_RETURN(const std::string answer, Query(question));
  Print(answer);
  bool is_partial = false;
  ASSIGN_OR_RETURN(const Json down, Ask(kDown, is_partial));
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
          .all_is_fine = true,
          .arguments = Arguments::kOne,
          .options = {{"WORD", "", "nodes (default) or backtrace"}, {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
