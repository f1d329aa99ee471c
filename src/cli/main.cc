// probing: the command line. Also called `probe`, its older name with an older form.
#include <exception>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/remote.h"

namespace probing::cli {
namespace {

Result<int> Main(std::string_view program, std::vector<std::string> words) {
  // A wheel cannot carry a link: there `probe` is a script which says who it is (tools/stage.py).
  const bool as_probe = !words.empty() && words[0] == "--as-probe";
  if (as_probe) words.erase(words.begin());
  if (as_probe || program.ends_with("probe")) {
    ASSIGN_OR_RETURN(words, TranslateProbe(words));
  }
  ASSIGN_OR_RETURN(Parsed parsed, ParseCommandLine(std::move(words)));
  if (parsed.help) {
    Print(*parsed.help + (parsed.help->ends_with('\n') ? "" : "\n"));
    return 0;
  }
  if (parsed.invocation.endpoint) RETURN_IF_ERROR(ChooseRemote(*parsed.command, parsed.invocation));
  return parsed.command->run(parsed.invocation);
}

}  // namespace
}  // namespace probing::cli

int main(int argc, char** argv) {
  using namespace probing;
  try {
    const Result<int> code = cli::Main(argc > 0 ? argv[0] : "", {argv + (argc > 0 ? 1 : 0), argv + argc});
    return code.ok() ? *code : cli::PrintError(code.error());
  } catch (const std::exception& e) {
    return cli::PrintError({Code::kFailed, e.what(), "this is a bug of probing"});
  }
}
