#include "cli/commands.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  Print(invocation.Has("--json") ? "{\"version\": \"" PROBING_VERSION "\"}\n"
                                 : "probing " PROBING_VERSION "\n");
  return 0;
}

}  // namespace

Command VersionCommand() {
  return {.name = "version",
          .summary = "Print the version",
          .example = "probing version",
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
