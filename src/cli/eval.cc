#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/source_text.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

// The outcome as an exit code; anything but "it ran" is also said on stderr.
int Conclude(const Json& answer) {
  const std::string outcome = answer.value("outcome", "");
  const std::string note = answer.value("note", "");
  if (outcome == "ok") {
    if (!note.empty()) PrintAside("probing: " + note + "\n");
    return 0;
  }
  if (outcome == "raised") {
    if (!note.empty()) PrintAside("probing: " + note + "\n");
    return 1;
  }
  const Error error = outcome == "timeout" ? Error{Code::kTimeout, "the evaluation did not end in time", note}
                      : outcome == "busy"
                          ? Error{Code::kFailed, "the target is busy with another evaluation", note}
                          : Error{Code::kFailed, "the evaluation was " + outcome, note};
  const int code = PrintError(error);
  if (const auto holder = answer.find("gil_holder"); holder != answer.end()) {
    PrintAside("Thread " + std::to_string(holder->value("tid", 0)) + " \"" + holder->value("name", "") +
               "\" holds the GIL:\n");
    for (const Json& frame : holder->value("stack", Json::array())) {
      PrintAside("    " + frame.get<std::string>() + "\n");
    }
  }
  return code;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::string code,
                   SourceText(invocation, "eval", "code", "probing -t PID eval 'len(x)'"));
  Json request{{"target", *invocation.target}, {"code", code}};
  if (invocation.Has("--timeout")) {
    ASSIGN_OR_RETURN(request["timeout"], invocation.GetNumber("--timeout", 0));
  }
  // The probe keeps the time. ^C ends this command, which probingd takes as a cancellation.
  ASSIGN_OR_RETURN(const Json answer,
                   PostToDaemon(std::string(wire::kEvalRoute), request, Patience::kEndless));
  if (invocation.Has("--json")) {
    Print(FormatJson(answer));
    const std::string outcome = answer.value("outcome", "");
    return outcome == "ok" ? 0 : static_cast<int>(outcome == "timeout" ? Code::kTimeout : Code::kFailed);
  }
  Print(answer.value("stdout", ""));
  PrintAside(answer.value("stderr", ""));
  if (answer.contains("value")) Print(answer.value("value", "") + "\n");
  PrintAside(answer.value("traceback", ""));
  return Conclude(answer);
}

}  // namespace

Command EvalCommand() {
  return {.name = "eval",
          .summary = "Run Python code in a target and print what comes of it",
          .example = "probing -t 1234 eval 'import threading; threading.active_count()'",
          .target = TargetUse::kRequired,
          .arguments = Arguments::kOne,
          .options = {{"CODE", "", "the code; - reads it from stdin"},
                      {"--file", "FILE", "read the code from a file"},
                      {"--timeout", "SECONDS", "give up after this long (default: probing.eval.timeout)"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
