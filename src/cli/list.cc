#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr std::size_t kCommandBytes = 200;

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Json answer, GetFromDaemon(std::string(wire::kTargetsRoute)));
  Json targets = Json::array();
  for (const Json& target : answer.value("targets", Json::array())) {
    if (!invocation.target || target.value("pid", 0) == *invocation.target) targets.push_back(target);
  }
  if (invocation.Has("--json")) {
    Print(FormatJson(targets));
    return 0;
  }
  if (targets.empty()) {
    PrintAside("no process of yours is probed on this host\n  hint: `probing -t PID inject` probes one\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Json& target : targets) {
    const std::int64_t started_ns = target.value("started_ns", std::int64_t{0});
    rows.push_back({std::to_string(target.value("pid", 0)), target.value("user", ""),
                    target.value("state", ""), target.value("python", ""), target.value("how", ""),
                    started_ns != 0 ? FormatTime(started_ns) : "",
                    OneLine(target.value("command", ""), kCommandBytes)});
  }
  Print(FormatTable({"PID", "USER", "STATE", "PYTHON", "HOW", "SINCE", "COMMAND"}, rows));
  return 0;
}

}  // namespace

Command ListCommand() {
  return {.name = "list",
          .alias = "ls",
          .summary = "Show all probed processes of this host",
          .example = "probing list --json",
          .target = TargetUse::kOptional,
          .target_may_have_ended = true,
          .all_is_fine = true,
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
