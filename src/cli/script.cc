// probing script: somebody's diagnostic script, run in the target and kept apart from the job.
#include "base/file.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/evaluation.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  if (invocation.arguments.empty()) {
    return Error{Code::kUsage, "script needs a file", "for example `probing -t PID script check.py`"};
  }
  const std::string& path = invocation.arguments[0];
  const Result<std::string> source = ReadFile(path);
  if (!source.ok()) return Error{Code::kUsage, "cannot read " + path + ": " + source.error().message, ""};
  std::string arguments;
  for (const std::string& word : invocation.arguments) arguments += (arguments.empty() ? "" : "\t") + word;
  Json request{{"target", *invocation.target}, {"code", *source}, {"op", "script"}, {"arguments", arguments}};
  if (invocation.Has("--timeout")) {
    ASSIGN_OR_RETURN(request["timeout"], invocation.GetNumber("--timeout", 0));
  }
  ASSIGN_OR_RETURN(const Json answer,
                   PostToDaemon(std::string(wire::kEvalRoute), request, Patience::kEndless));
  return PrintEvaluation(answer);
}

}  // namespace

Command ScriptCommand() {
  return {.name = "script",
          .summary = "Run a diagnostic script in a target, apart from the job",
          .example = "probing -t 1234 script check_gradients.py",
          .target = TargetUse::kRequired,
          .arguments = Arguments::kMany,
          .options = {{"FILE", "", "the script, and arguments for it: its `argv`"},
                      {"--timeout", "SECONDS", "stop it after this long (default: probing.eval.timeout)"}},
          .run = Run};
}

}  // namespace probing::cli
