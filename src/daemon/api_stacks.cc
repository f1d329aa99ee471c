// Stacks over HTTP: backtrace as the command line prints it, flame graphs and profiles as files.
#include "backtrace/backtrace.h"
#include "base/text.h"
#include "daemon/api.h"
#include "flame/formats.h"
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
  const Result<void> recorded = co_await daemon.sampling.RecordThen(
      {{*pid}}, request.body,
      [&](const observe::Recorder& recorder) { content.body = format->write(recorder.profile(), *view); });
  if (!recorded.ok()) co_return recorded.error();
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
