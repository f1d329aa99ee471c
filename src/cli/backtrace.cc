// probing backtrace: where every thread is, read from outside. Works while the GIL is held, while the
// target is stopped or hung, and needs no injection.

#include "cli/backtrace.h"

#include "cli/commands.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Selection selection, ParseSelection(invocation));
  ASSIGN_OR_RETURN(const Picture picture, invocation.Has("--core") ? ReadCore(invocation, selection)
                                                                   : ReadLive(invocation, selection));
  if (selection.tid && picture.threads.empty()) {
    return Error{
        Code::kFailed,
        "process " + std::to_string(picture.pid) + " has no thread " + std::to_string(*selection.tid),
        "`probing backtrace --all` shows them"};
  }
  if (invocation.Has("--json")) {
    Print(PictureToJson(picture));
  } else {
    Print(PictureToText(picture));
  }
  return 0;
}

}  // namespace

Command BacktraceCommand() {
  return {
      .name = "backtrace",
      .alias = "bt",
      .summary = "Where every Python thread is, without injecting or stopping anything",
      .example = "probing -t 12345 backtrace",
      .target = TargetUse::kRequired,
      .arguments = Arguments::kNone,
      .options = {{"--tid", "TID", "only this thread"},
                  {"--all", "", "also threads that run no Python"},
                  {"--native", "", "also native frames; threads that run are held for some microseconds"},
                  {"--stop", "", "hold all threads meanwhile: a picture of one instant"},
                  {"--core", "FILE", "of a core file; its program, or a folder with all files, may follow"},
                  {"--locals", "", "also the variables of each frame"},
                  {"--json", "", "as JSON"}},
      .instead_of_target = "--core",
      .run = Run};
}

}  // namespace probing::cli
