#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/incident_rows.h"
#include "cli/job_recording.h"
#include "cli/query_client.h"
#include "cli/recording.h"
#include "flame/formats.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kTracePeriodNs = 1000;  // times of a trace are told in microseconds
constexpr std::size_t kDeepestOp = 512;

// Of a trace: each operator with those around it and its own time.
constexpr const char* kTraceSql = R"(
SELECT coalesce(rank, 0), thread, coalesce(thread_name, 'thread ' || thread), depth, op, self_us, timestamp_ns
FROM python.torch_ops WHERE kind <> 'python' ORDER BY rank, thread, timestamp_ns, depth)";

flame::Profile ReadTrace(const Json& rows) {
  flame::Profile profile(kTracePeriodNs, {});
  std::map<std::pair<std::int64_t, std::int64_t>, flame::ThreadId> threads;
  std::vector<flame::Frame> open;  // outermost first
  for (const Json& row : rows) {
    const std::pair key{row[0].get<std::int64_t>(), row[1].get<std::int64_t>()};
    auto thread = threads.find(key);
    if (thread == threads.end()) {
      const flame::ThreadId id =
          profile.AddThread({static_cast<pid_t>(key.first), static_cast<pid_t>(key.second),
                             row[2].get<std::string>(), "trace"});
      thread = threads.emplace(key, id).first;
      open.clear();
    }
    open.resize(std::min({open.size(), row[3].get<std::size_t>(), kDeepestOp}));
    open.push_back({flame::FrameKind::kNative, row[4].is_null() ? "" : row[4].get<std::string>(), "", 0, 0});
    flame::Sample sample;
    sample.start_ns = row[6].get<std::int64_t>();
    sample.ticks = static_cast<std::uint32_t>(std::clamp(row[5].get<double>() + 0.5, 0.0, 4e9));
    sample.thread = thread->second;
    sample.on_cpu = true;
    if (sample.ticks > 0) profile.AddSample(sample, {open.rbegin(), open.rend()});
  }
  return profile;
}

// Of an incident: the samples that were taken before it; of a trace: its operators.
Result<int> DrawFile(const Invocation& invocation, const std::string& path, bool html) {
  ASSIGN_OR_RETURN(flame::View chosen, ViewOf(invocation));
  ASSIGN_OR_RETURN(const flame::Profile samples, RecordedSamples(invocation.directory));
  if (!samples.samples().empty()) {
    RETURN_IF_ERROR(WriteResult(path, html ? ToHtml(samples, chosen) : ToSvg(samples, chosen)));
    return 0;
  }
  ASSIGN_OR_RETURN(const std::string answer,
                   Query({.directory = invocation.directory, .sql = kTraceSql, .format = "rows"}));
  const Json parsed = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("rows") || parsed["rows"].empty())
    return Error{Code::kFailed, "there are no samples and no operators in " + invocation.directory,
                 "a flame graph is drawn of incidents and of traces of torch.profiler"};
  flame::View view;
  view.title = invocation.directory;
  const flame::Profile profile = ReadTrace(parsed["rows"]);
  RETURN_IF_ERROR(WriteResult(path, html ? ToHtml(profile, view) : ToSvg(profile, view)));
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  std::string path = invocation.Get("--output");
  if (path.empty())
    path = invocation.target ? "flamegraph-" + std::to_string(*invocation.target) + ".svg"
           : invocation.job  ? "flamegraph-job.svg"
                             : "flamegraph.svg";
  const bool html = path.ends_with(".html") || path.ends_with(".htm");
  if (!html && !path.ends_with(".svg") && path != "-") {
    return Error{Code::kUsage, "a flame graph is a .svg or a .html file, not " + path,
                 "`probing record` writes other formats"};
  }
  RETURN_IF_ERROR(CheckWritable(path));
  if (!invocation.directory.empty()) return DrawFile(invocation, path, html);
  if (invocation.endpoint || IsOfThePast(invocation)) {
    ASSIGN_OR_RETURN(const std::string drawn, RecordRemote(invocation, html ? "html" : "svg"));
    RETURN_IF_ERROR(WriteResult(path, drawn));
    return 0;
  }
  ASSIGN_OR_RETURN(flame::View view, ViewOf(invocation));
  if (invocation.job) {
    ASSIGN_OR_RETURN(const JobRecording job, RecordJob(invocation, view));
    RETURN_IF_ERROR(WriteResult(path, html ? ToHtml(job.profile, view) : ToSvg(job.profile, view)));
    return job.is_partial ? static_cast<int>(Code::kPartial) : 0;
  }
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
          .target_may_be_directory = true,
          .target_may_be_job = true,
          .options = RecordingOptions(
              {{"-o,--output", "FILE", "a .svg or .html file, or - for stdout (flamegraph-PID.svg)"}}),
          .run = Run};
}

}  // namespace probing::cli
