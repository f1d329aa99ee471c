#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/installation.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

// Samples are taken by probingd. A probe never starts it: nothing of ours forks inside of a job.
bool WantsSamples() {
  const char* pprof = std::getenv("PROBE_PPROF");
  const bool wants = pprof != nullptr && *pprof != '\0' && std::string_view(pprof) != "0";
  return wants || std::getenv("PROBING_SAMPLE_RATE") != nullptr;
}

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
  if (WantsSamples()) {
    // Before the preload, which is not for probingd. Without it the program runs all the same.
    if (const Result<void> started = StartDaemon(); !started.ok()) PrintError(started.error());
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
