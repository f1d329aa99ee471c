#include "cli/commands.h"
#include "cli/recording.h"
#include "flame/formats.h"

namespace probing::cli {
namespace {

Result<int> Run(const Invocation& invocation) {
  std::string path = invocation.Get("--output");
  if (path.empty()) path = "flamegraph-" + std::to_string(*invocation.target) + ".svg";
  const bool html = path.ends_with(".html") || path.ends_with(".htm");
  if (!html && !path.ends_with(".svg") && path != "-") {
    return Error{Code::kUsage, "a flame graph is a .svg or a .html file, not " + path,
                 "`probing record` writes other formats"};
  }
  RETURN_IF_ERROR(CheckWritable(path));
  if (invocation.endpoint) {
    ASSIGN_OR_RETURN(const std::string drawn, RecordRemote(invocation, html ? "html" : "svg"));
    RETURN_IF_ERROR(WriteResult(path, drawn));
    return 0;
  }
  ASSIGN_OR_RETURN(flame::View view, ViewOf(invocation));
  ASSIGN_OR_RETURN(const observe::Recorder recorder, Record(invocation, view));
  const flame::Profile& profile = recorder.profile();
  RETURN_IF_ERROR(WriteResult(path, html ? ToHtml(profile, view) : ToSvg(profile, view)));
  return 0;
}

}  // namespace

Command FlamegraphCommand() {
  return {.name = "flamegraph",
          .summary = "Record stacks and draw a flame graph (SVG, HTML)",
          .example = "probing -t 1234 flamegraph -d 30 -o train.svg",
          .target = TargetUse::kRequired,
          .for_each_rank = Command::OfJob::kAtOnce,
          .options = RecordingOptions(
              {{"-o,--output", "FILE", "a .svg or .html file, or - for stdout (flamegraph-PID.svg)"}}),
          .run = Run};
}

}  // namespace probing::cli
