// probing profile: torch's own profiler in a running job, and what it or a trace says.
#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/profile_report.h"
#include "cli/recorded_file.h"
#include "cli/recording.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kDefaultSteps = 3;
constexpr std::int64_t kStartTogetherNs = 1'000'000'000;  // for the requests to all ranks to arrive

Result<Json> RequestOf(const Invocation& invocation) {
  Json request = Json::object();
  if (invocation.Has("--steps") && invocation.Has("--seconds"))
    return Error{Code::kUsage, "either --steps or --seconds, not both", ""};
  if (invocation.Has("--seconds")) {
    ASSIGN_OR_RETURN(request["seconds"], invocation.GetNumber("--seconds", 1));
  } else {
    std::int64_t steps = kDefaultSteps;
    if (invocation.Has("--steps") && (!ParseNumber(invocation.Get("--steps"), steps) || steps < 1))
      return Error{Code::kUsage, "--steps is a whole number above 0, not " + invocation.Get("--steps"), ""};
    request["steps"] = steps;
  }
  if (invocation.Has("--timeout")) {
    ASSIGN_OR_RETURN(request["patience"], invocation.GetNumber("--timeout", 1));
  }
  for (const char* flag : {"--shapes", "--stacks"}) {
    if (invocation.Has(flag)) request[flag + 2] = true;
  }
  return request;
}

Result<Json> Record(Json request, pid_t pid) {
  request["target"] = pid;
  return PostToDaemon(std::string(wire::kTorchProfileRoute), request, Patience::kEndless);
}

// trace.json becomes trace-PID.json when there are several.
std::string NameFor(const std::string& path, pid_t pid) {
  const std::size_t dot = path.rfind(".json");
  const std::size_t end = dot == std::string::npos ? path.size() : dot;
  return path.substr(0, end) + "-" + std::to_string(pid) + path.substr(end);
}

// What a person should know beside the result. True when the profile is not what was asked for.
bool Warn(const Json& recorded, const Json& request) {
  const std::string ended_by = recorded.value("ended_by", "");
  const std::string problem = recorded.value("problem", "");
  const std::int64_t steps = recorded.value("steps", std::int64_t{0});
  bool is_partial = false;
  if (ended_by == "memory") {
    PrintAside("probing: the profile ended early: the job had grown by more than probing.profile.memory\n");
    is_partial = true;
  } else if (ended_by != "done") {
    PrintAside("probing: the profile ended early: " + ended_by + "\n");
    is_partial = true;
  }
  if (request.contains("steps") && steps < request["steps"].get<std::int64_t>()) {
    PrintAside("probing: it has " + std::to_string(steps) + " whole steps\n");
    is_partial = true;
  }
  if (!problem.empty()) PrintAside("probing: " + problem + "\n");
  return is_partial || !problem.empty();
}

Result<bool> RecordOne(const Invocation& invocation, const Json& request) {
  ASSIGN_OR_RETURN(const Json recorded, Record(request, *invocation.target));
  if (invocation.Has("--output"))
    RETURN_IF_ERROR(CopyRecordedFile(recorded.value("trace", ""), invocation.Get("--output")));
  return Warn(recorded, request);
}

// Ranks that train together end their steps together, so the first one after a common time is the same for
// all. Whether it was is seen from when they began.
bool BeganTogether(const std::vector<Json>& all) {
  std::int64_t first = INT64_MAX, last = INT64_MIN, step_ns = INT64_MAX;
  for (const Json& recorded : all) {
    const std::int64_t from = recorded.value("from_ns", std::int64_t{0});
    const std::int64_t steps = recorded.value("steps", std::int64_t{0});
    first = std::min(first, from);
    last = std::max(last, from);
    if (steps > 0) step_ns = std::min(step_ns, (recorded.value("to_ns", from) - from) / steps);
  }
  return all.size() < 2 || last - first < step_ns / 2;
}

Result<int> RunJob(const Invocation& invocation, Json request) {
  ASSIGN_OR_RETURN(const std::vector<process::RankProcess> ranks, RanksOfJob(*invocation.job));
  request["from_ns"] = WallNs() + kStartTogetherNs;
  std::vector<std::future<Result<Json>>> asked;
  for (const process::RankProcess& rank : ranks)
    asked.push_back(
        std::async(std::launch::async, [&request, pid = rank.pid] { return Record(request, pid); }));
  std::vector<Json> all;
  bool is_partial = false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Result<Json> recorded = asked[i].get();
    const std::string name = "rank " + std::to_string(ranks[i].identity.rank.value_or(-1)) + " (process " +
                             std::to_string(ranks[i].pid) + ")";
    if (!recorded.ok()) {
      PrintAside("probing: " + name + ": " + recorded.error().message + "\n");
      is_partial = true;
      continue;
    }
    is_partial = Warn(*recorded, request) || is_partial;
    if (invocation.Has("--output"))
      RETURN_IF_ERROR(
          CopyRecordedFile(recorded->value("trace", ""), NameFor(invocation.Get("--output"), ranks[i].pid)));
    all.push_back(*recorded);
    ASSIGN_OR_RETURN(const Json report, ProfileReport({.target = ranks[i].pid}));
    if (invocation.Has("--json")) {
      Print(EncodeJson(report) + "\n");
    } else {
      Print(Painted(name, Colour::kBold) + ": " + ProfileText(report) + "\n");
    }
  }
  if (all.empty()) return Error{Code::kFailed, "no rank of the job could be profiled", ""};
  if (!BeganTogether(all)) {
    PrintAside(
        "probing: the ranks did not begin at the same step\n  hint: once more; steps that are much shorter "
        "than what the ranks differ by cannot be told apart\n");
    is_partial = true;
  }
  return is_partial ? static_cast<int>(Code::kPartial) : 0;
}

Result<int> Run(const Invocation& invocation) {
  const Question about{.target = invocation.target, .directory = invocation.directory};
  bool is_partial = false;
  const bool records = invocation.directory.empty() && !invocation.Has("--last");
  if (records) {
    if (invocation.Has("--output")) {
      if (invocation.endpoint)
        return Error{Code::kUsage, "-o writes a file of the machine the target is on", "run it there"};
      RETURN_IF_ERROR(CheckWritable(invocation.Get("--output")));
    }
    ASSIGN_OR_RETURN(const Json request, RequestOf(invocation));
    if (invocation.job) return RunJob(invocation, request);
    ASSIGN_OR_RETURN(is_partial, RecordOne(invocation, request));
  }
  ASSIGN_OR_RETURN(const Json report, ProfileReport(about));
  Print(invocation.Has("--json") ? FormatJson(report) : ProfileText(report));
  return is_partial ? static_cast<int>(Code::kPartial) : 0;
}

}  // namespace

Command ProfileCommand() {
  return {.name = "profile",
          .summary =
              "Operators and kernels of a running job by torch's profiler, or of a trace: the biggest costs",
          .example = "probing -t 1234 profile --steps 3 -o trace.json",
          .target = TargetUse::kRequired,
          .target_may_be_directory = true,
          .target_may_be_job = true,
          .options = {{"--steps", "N", "record this many steps of training (3)"},
                      {"--seconds", "SECONDS", "record for this long instead"},
                      {"--shapes", "", "shapes of their inputs, too"},
                      {"--stacks", "", "Python functions and modules, too; much slower"},
                      {"-o,--output", "FILE", "write the trace, for Perfetto (https://ui.perfetto.dev)"},
                      {"--timeout", "SECONDS", "how long to wait for the steps (60)"},
                      {"--last", "", "record nothing: report on the newest profile"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
