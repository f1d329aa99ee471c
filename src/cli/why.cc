// probing why: what a waiting thread waits for, from process to process, to the one that could go on.
#include "base/text.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/output.h"
#include "why/explain.h"

namespace probing::cli {
namespace {

Result<std::vector<pid_t>> Targets(const Invocation& invocation) {
  std::vector<pid_t> pids;
  if (invocation.job) {
    ASSIGN_OR_RETURN(const auto ranks, RanksOfJob(*invocation.job));
    for (const process::RankProcess& rank : ranks) pids.push_back(rank.pid);
  }
  if (invocation.target) pids.push_back(*invocation.target);
  for (const std::string& word : invocation.arguments) {
    pid_t pid = 0;
    if (!ParseNumber(word, pid) || pid <= 0) {
      return Error{Code::kUsage, "why takes pids, not \"" + word + "\"", "see `probing why --help`"};
    }
    pids.push_back(pid);
  }
  return pids;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(std::vector<pid_t> pids, Targets(invocation));
  const bool is_all = pids.empty();
  if (is_all) pids = why::FindPythons();
  if (pids.empty()) {
    return Error{Code::kNotFound, "there is no Python process on this host that we may look into",
                 "name one: `probing -t PID why`"};
  }
  ASSIGN_OR_RETURN(why::Answer answer, why::Explain(pids));
  if (is_all) answer.is_about_one = false;
  if (!answer.is_whole) PrintAside("note: there was no time to look at everything; name fewer processes\n");
  const int code = answer.is_whole ? 0 : static_cast<int>(Code::kPartial);
  if (invocation.Has("--json")) {
    Print(AnswerToJson(answer));
    return code;
  }
  if (answer.causes.empty()) {
    PrintAside(
        "none of " + std::to_string(pids.size()) +
        " processes waits for another thread, process or host\n  hint: `probing -t PID why` tells of one "
        "what it does\n");
    return code;
  }
  const bool is_terminal = !Painted("", Colour::kBold).empty();
  Print(AnswerToText(answer, is_terminal ? why::Emphasis::kTerminal : why::Emphasis::kNone));
  return code;
}

}  // namespace

Command WhyCommand() {
  return {.name = "why",
          .summary = "Follow what a process waits for, from process to process, to the cause",
          .example = "probing why 12345\n  probing -t job why\n  probing why",
          .target = TargetUse::kOptional,
          .target_may_be_job = true,
          .only_here = true,
          .arguments = Arguments::kMany,
          .options = {{"PID", "", "more processes; without any: all Python processes of this host"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
