// Stacks over HTTP: backtrace as the command line prints it, flame graphs and profiles as files.
#include <cmath>
#include <limits>
#include <optional>

#include "backtrace/backtrace.h"
#include "base/clock.h"
#include "base/text.h"
#include "daemon/api.h"
#include "flame/formats.h"
#include "flame/interval.h"
#include "process/source_file.h"
#include "process/status.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Content;
using server::Json;
using server::Request;

namespace {

bool IsOn(const Request& request, const char* name) {
  const auto found = request.query.find(name);
  return found != request.query.end() && found->second != "0" && found->second != "false";
}

std::string Field(const Request& request, const char* name, const char* otherwise) {
  const auto found = request.query.find(name);
  return found != request.query.end() ? found->second : otherwise;
}

Result<backtrace::Options> OptionsOf(const Request& request) {
  backtrace::Options options;
  options.selection.all = IsOn(request, "all");
  options.lines = IsOn(request, "lines");
  options.native = options.lines || IsOn(request, "native");
  options.stop = IsOn(request, "stop");
  options.locals = IsOn(request, "locals");
  options.task_tree = IsOn(request, "task_tree");
  options.greenlets = IsOn(request, "greenlets");
  options.own_frames = IsOn(request, "full");
  options.wait_channels = Field(request, "format", "json") != "text";
  if (const std::string text = Field(request, "tid", ""); !text.empty()) {
    pid_t tid = 0;
    if (!ParseNumber(text, tid) || tid <= 0)
      return Error{Code::kUsage, "tid is a thread id, not \"" + text + "\"", ""};
    options.selection.tid = tid;
  }
  if (const std::string text = Field(request, "depth", ""); !text.empty()) {
    ASSIGN_OR_RETURN(options.depth, backtrace::DepthOf(text));
  }
  // Both hold threads for a moment.
  if ((options.native || options.stop) && request.right < server::Right::kProfile) {
    return Error{Code::kPermission, "native and stop hold threads, which takes the right to profile",
                 "`probing token --rights profile` shows the token for it"};
  }
  // What is in variables (tokens, passwords, data) is what code in the process could read.
  if (options.locals && request.right < server::Right::kEval) {
    return Error{Code::kPermission, "local variables take the right to eval",
                 "`probing token --rights eval` shows the token for it"};
  }
  return options;
}

std::string Text(const Json& body, const char* name, const char* otherwise) {
  const auto found = body.find(name);
  return found != body.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

bool Flag(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found != body.end() && *found == true;
}

Result<flame::View> ViewOf(const Json& body, pid_t pid) {
  flame::View view;
  const std::string show = Text(body, "show", "active");
  if (show != "active" && show != "all" && show != "gil")
    return Error{Code::kUsage, "show is active, all or gil", ""};
  view.shown = show == "all"   ? flame::Shown::kAll
               : show == "gil" ? flame::Shown::kGil
                               : flame::Shown::kActive;
  view.by_thread = Flag(body, "threads");
  view.by_line = Flag(body, "lines");
  view.by_process = Flag(body, "subprocesses");
  view.source_of = [pid](const std::string& file) {
    auto text = process::ReadSourceFile(pid, file);
    return text.ok() ? std::move(*text) : std::string();
  };
  view.title = process::CommandLine(pid).substr(0, 80) + " (pid " + std::to_string(pid) + ")";
  return view;
}

// Part of what is sampled all the time.
struct Interval {
  std::int64_t from_ns = 0, to_ns = 0;  // monotonic
};

Result<std::optional<Interval>> IntervalIn(const Json& body) {
  const std::int64_t now_ns = MonotonicNs(), wall_ns = WallNs();
  const auto moment = [&](const char* name, std::int64_t otherwise) -> Result<std::int64_t> {
    const auto field = body.find(name);
    if (field == body.end()) return otherwise;
    const double seconds = field->is_number() ? field->get<double>() : std::nan("");
    if (!(std::abs(seconds) < 1e10))
      return Error{Code::kUsage, std::string(name) + " is seconds since 1970, or below 0 seconds before now",
                   ""};
    const auto ns = static_cast<std::int64_t>(seconds * 1e9);
    return now_ns + (ns > 0 ? ns - wall_ns : ns);
  };
  if (!body.contains("from") && !body.contains("to")) return std::optional<Interval>();
  Interval interval;
  ASSIGN_OR_RETURN(interval.from_ns, moment("from", std::numeric_limits<std::int64_t>::min()));
  ASSIGN_OR_RETURN(interval.to_ns, moment("to", now_ns));
  if (interval.from_ns >= interval.to_ns)
    return Error{Code::kUsage, "from is not before to, or still to come", ""};
  return std::optional(interval);
}

Result<flame::Profile> SampledIn(const Daemon& daemon, pid_t pid, const Interval& interval) {
  std::optional<flame::Profile> part;
  std::int64_t since_ns = 0;
  daemon.sampling.Look(pid, [&](const flame::Profile& profile) {
    part = flame::Between(profile, interval.from_ns, interval.to_ns);
    if (!profile.samples().empty()) since_ns = profile.samples().front().start_ns;
  });
  const std::string process = "process " + std::to_string(pid);
  if (!part) {
    return Error{Code::kFailed, process + " is not sampled all the time",
                 "it is once a probe is in it, or `config " + std::string(kSampleRate) + "=0.1` asks for it"};
  }
  if (!part->samples().empty()) return std::move(*part);
  return Error{Code::kFailed, "there is no sample of " + process + " of that time",
               since_ns == 0 ? "none has been taken yet"
                             : "the oldest is " + std::to_string((MonotonicNs() - since_ns) / 1'000'000'000) +
                                   " s old"};
}

asio::awaitable<Result<Content>> PostFlamegraph(Daemon& daemon, const Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Result<flame::View> view = ViewOf(request.body, *pid);
  if (!view.ok()) co_return view.error();
  const std::string name = Text(request.body, "format", "svg");
  const flame::Format* format = flame::FindFormat(name);
  if (format == nullptr) {
    co_return Error{Code::kUsage, "there is no format " + name, "it is one of " + flame::FormatNames()};
  }
  Content content{format->media_type, "", 200, {}};
  const Result<std::optional<Interval>> interval = IntervalIn(request.body);
  if (!interval.ok()) co_return interval.error();
  if (interval->has_value()) {
    const Result<flame::Profile> part = SampledIn(daemon, *pid, **interval);
    if (!part.ok()) co_return part.error();
    content.body = co_await Aside(daemon, [&] { return format->write(*part, *view); });
  } else {
    const Result<void> recorded = co_await daemon.sampling.RecordThen(
        {{*pid}}, request.body,
        [&](const observe::Recorder& recorder) { content.body = format->write(recorder.profile(), *view); });
    if (!recorded.ok()) co_return recorded.error();
  }
  // Such a page has its script in itself, which the policy of our own pages forbids. In a sandbox of its
  // own it may run: from there nothing of ours can be reached.
  content.headers.emplace_back("Content-Security-Policy",
                               "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                               "sandbox allow-scripts; frame-ancestors 'self'");
  co_return content;
}

}  // namespace

asio::awaitable<Result<Content>> Backtrace(Daemon& daemon, const Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Result<backtrace::Options> options = OptionsOf(request);
  if (!options.ok()) co_return options.error();
  if (!daemon.file.empty()) co_return co_await RecordedBacktrace(daemon, request);
  // Reading takes from microseconds to a second: symbols of big libraries.
  const pid_t target = *pid;
  const Result<backtrace::Picture> picture =
      co_await Aside(daemon, [&] { return backtrace::ReadLive(target, *options); });
  if (!picture.ok()) co_return picture.error();
  if (const Result<void> shown = backtrace::CheckShown(*picture, *options); !shown.ok())
    co_return shown.error();
  if (Field(request, "format", "json") != "text")
    co_return Content{"application/json", backtrace::PictureToJson(*picture), 200, {}};
  backtrace::TextStyle style;
  if (IsOn(request, "emphasis")) style.emphasis = backtrace::Emphasis::kTerminal;
  (void)ParseNumber(Field(request, "columns", "0"), style.columns);
  co_return Content{"text/plain; charset=utf-8", backtrace::PictureToText(*picture, style), 200, {}};
}

void AddStackRoutes(server::Router& router, Daemon& daemon) {
  const auto shared = std::make_shared<SharedAnswers>(daemon.io);  // a target is read once for all who look
  router.AddContent("GET", wire::kBacktraceRoute, server::Right::kRead, [&, shared](const Request& request) {
    const std::string what =
        std::string(server::RightName(request.right)) + " " + server::JsonText(Json(request.query));
    return AskOnce(shared->Get(what, [&daemon, request] { return Backtrace(daemon, request); }));
  });
  router.AddContent("POST", wire::kFlamegraphRoute, server::Right::kProfile,
                    [&](const Request& request) { return PostFlamegraph(daemon, request); });
}

}  // namespace probing::daemon
