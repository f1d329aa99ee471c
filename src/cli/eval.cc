#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/evaluation.h"
#include "cli/output.h"
#include "cli/source_text.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string code,
                   SourceText(invocation, "eval", "code", "probing -t PID eval 'len(x)'"));
  Json request{{"target", *invocation.target}, {"code", code}};
  for (const char* option : {"--thread", "--frame", "--at"}) {
    if (invocation.Has(option)) request[option + 2] = invocation.Get(option);
  }
  if (invocation.Has("--at") && invocation.Get("--at") != "step") {
    return Error{Code::kUsage, "--at cannot be \"" + invocation.Get("--at") + "\"",
                 "--at step runs the code at the end of an optimizer's step"};
  }
  if (invocation.Has("--timeout")) {
    ASSIGN_OR_RETURN(request["timeout"], invocation.GetNumber("--timeout", 0));
  }
  if (invocation.Has("--yes")) request["confirmed"] = "1";
  // The probe keeps the time. ^C ends this command, which probingd takes as a cancellation.
  ASSIGN_OR_RETURN(const Json answer,
                   PostToDaemon(std::string(wire::kEvalRoute), request, Patience::kEndless));
  if (invocation.Has("--json")) {
    Print(FormatJson(answer));
    const std::string outcome = answer.value("outcome", "");
    return outcome == "ok" ? 0 : static_cast<int>(outcome == "timeout" ? Code::kTimeout : Code::kFailed);
  }
  return PrintEvaluation(answer);
}

}  // namespace

Command EvalCommand() {
  return {.name = "eval",
          .summary = "Run Python code in a target and print its output and value",
          .example = "probing -t 1234 eval 'import threading; threading.active_count()'",
          .target = TargetUse::kRequired,
          .for_each_rank = Command::OfJob::kInTurn,
          .arguments = Arguments::kOne,
          .options = {{"CODE", "", "the code; - reads it from stdin"},
                      {"--file", "FILE", "read the code from a file"},
                      {"--thread", "TID", "with the names of a frame of this thread (default: the main one)"},
                      {"--frame", "N", "which of its frames; 0, the default, is the innermost"},
                      {"--at", "step",
                       "at the end of a training step, which waits (probing.eval.step_hold at most)"},
                      {"--timeout", "SECONDS", "give up after this long (default: probing.eval.timeout)"},
                      {"--yes", "", "also what ends the job, as os._exit() does"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
