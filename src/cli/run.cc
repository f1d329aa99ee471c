#include <unistd.h>

#include <cstdlib>

#include "cli/commands.h"
#include "cli/installation.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  if (invocation.arguments.empty()) {
    return Error{Code::kUsage, "run needs a program to start",
                 "for example `probing run -- python train.py`"};
  }
  ASSIGN_OR_RETURN(std::string preload, FindLibrary());
  if (preload.find_first_of(": ") != std::string::npos) {
    return Error{Code::kFailed,
                 "LD_PRELOAD cannot name " + preload + ": colons and spaces separate its entries",
                 "install probing in a folder without them"};
  }
  if (const char* inherited = std::getenv("LD_PRELOAD"); inherited != nullptr && *inherited != '\0') {
    preload += std::string(":") + inherited;
  }
  setenv("LD_PRELOAD", preload.c_str(), 1);
  if (invocation.Has("--nested")) {
    setenv("PROBING_NESTED", "true", 1);
    unsetenv("PROBING_RUN_PID");
  } else {
    // Children inherit LD_PRELOAD but have another pid. exec keeps ours.
    setenv("PROBING_RUN_PID", std::to_string(getpid()).c_str(), 1);
  }
  std::vector<char*> words;
  for (const std::string& word : invocation.arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  Error error = ErrnoError("run " + invocation.arguments[0]);
  error.code = errno == ENOENT ? Code::kUsage : error.code;
  return error;
}

}  // namespace

Command RunCommand() {
  return {.name = "run",
          .summary = "Start a program under the probe",
          .example = "probing run -- python train.py --epochs 3",
          .arguments = Arguments::kProgram,
          .options = {{"PROGRAM", "", "the program and its arguments"},
                      {"--nested", "", "probe the processes it starts, too"}},
          .run = Run};
}

}  // namespace probing::cli
