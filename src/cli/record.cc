#include "cli/commands.h"
#include "cli/recording.h"
#include "flame/formats.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  const std::string name = invocation.Has("--format") ? invocation.Get("--format") : "speedscope";
  const flame::Format* format = flame::FindFormat(name);
  if (format == nullptr) {
    return Error{Code::kUsage, "there is no format " + name, "it is one of " + flame::FormatNames()};
  }
  std::string path = invocation.Get("--output");
  if (path.empty()) path = "profile-" + std::to_string(*invocation.target) + std::string(format->suffix);
  RETURN_IF_ERROR(CheckWritable(path));
  if (invocation.endpoint) {
    ASSIGN_OR_RETURN(const std::string recorded, RecordRemote(invocation, format->name));
    RETURN_IF_ERROR(WriteResult(path, recorded));
    return 0;
  }
  ASSIGN_OR_RETURN(const flame::View view, ViewOf(invocation));
  ASSIGN_OR_RETURN(const observe::Recorder recorder, Record(invocation, view));
  RETURN_IF_ERROR(WriteResult(path, format->write(recorder.profile(), view)));
  return 0;
}

}  // namespace

Command RecordCommand() {
  return {.name = "record",
          .summary = "Record stacks to a profile for speedscope, pprof, Perfetto, Firefox and others",
          .example = "probing -t 1234 record -d 30 -f chrome -o train.json",
          .target = TargetUse::kRequired,
          .options = RecordingOptions(
              {{"-f,--format", "FORMAT",
                "speedscope, collapsed, pprof, chrome, gecko, heatmap, svg or html (speedscope)",
                "speedscope|collapsed|pprof|chrome|gecko|heatmap|svg|html"},
               {"-o,--output", "FILE", "where to, - is stdout (profile-PID and a suffix)"}}),
          .run = Run};
}

}  // namespace probing::cli
