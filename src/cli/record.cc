#include "cli/commands.h"
#include "cli/incident_rows.h"
#include "cli/job_recording.h"
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
  const bool is_picture = format->name == "svg" || format->name == "html";
  if (invocation.Has("--against") && !is_picture) {
    return Error{Code::kUsage, "a comparison is a picture, not " + name,
                 "`-f svg` or `-f html`; --rank 3 alone goes with all formats"};
  }
  if (path.empty() && !invocation.directory.empty()) path = "profile" + std::string(format->suffix);
  if (path.empty())
    path = "profile-" + (invocation.job ? "job" : std::to_string(*invocation.target)) +
           std::string(format->suffix);
  RETURN_IF_ERROR(CheckWritable(path));
  if (!invocation.directory.empty()) {
    ASSIGN_OR_RETURN(const flame::View view, ViewOf(invocation));
    ASSIGN_OR_RETURN(const flame::Profile profile, RecordedSamples(invocation.directory));
    if (profile.samples().empty())
      return Error{Code::kFailed, "there are no samples in " + invocation.directory,
                   "`probing incident` writes files that have some"};
    RETURN_IF_ERROR(WriteResult(path, format->write(profile, view)));
    return 0;
  }
  if (invocation.endpoint || IsOfThePast(invocation)) {
    ASSIGN_OR_RETURN(const std::string recorded, RecordRemote(invocation, format->name));
    RETURN_IF_ERROR(WriteResult(path, recorded));
    return 0;
  }
  ASSIGN_OR_RETURN(flame::View view, ViewOf(invocation));
  if (invocation.job) {
    ASSIGN_OR_RETURN(const JobRecording job, RecordJob(invocation, view));
    RETURN_IF_ERROR(WriteResult(path, format->write(job.profile, view)));
    return job.is_partial ? static_cast<int>(Code::kPartial) : 0;
  }
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
          .target_may_be_directory = true,
          .target_may_be_job = true,
          .options = RecordingOptions(
              {{"-f,--format", "FORMAT",
                "speedscope, collapsed, pprof, chrome, gecko, heatmap, svg or html (speedscope)",
                "speedscope|collapsed|pprof|chrome|gecko|heatmap|svg|html"},
               {"-o,--output", "FILE", "where to, - is stdout (profile-PID and a suffix)"}}),
          .run = Run};
}

}  // namespace probing::cli
