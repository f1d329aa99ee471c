// probing token: what those have to show who are not recognised by their user.
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Json tokens, GetFromDaemon(std::string(wire::kTokenRoute)));
  if (invocation.Has("--json")) {
    Print(FormatJson(tokens));
    return 0;
  }
  const std::string rights = invocation.Has("--rights") ? invocation.Get("--rights") : "eval";
  if (!tokens.contains(rights)) {
    return Error{Code::kUsage, "there is no token for \"" + rights + "\"",
                 "it is one of read, profile, eval"};
  }
  Print(tokens.value(rights, "") + "\n");
  return 0;
}

}  // namespace

Command TokenCommand() {
  return {.name = "token",
          .summary = "Show the access token: PROBING_TOKEN=… probing -t host:port …",
          .example = "probing token --rights read",
          .options = {{"--rights", "RIGHTS", "what it allows: read, profile or eval (eval)"},
                      {"--json", "", "print all as JSON"}},
          .run = Run};
}

}  // namespace probing::cli
