// What probingd answers about a recording that it serves (`probing serve FILE`): rows, stacks, findings, the
// page and agents' questions. Nothing that would take a process is there.
#include <unistd.h>

#include "backtrace/recorded.h"
#include "base/text.h"
#include "daemon/api.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Content;
using server::Json;
using server::Request;

namespace {

constexpr const char* kTargetsSql =
    "SELECT pid, state, python, epoch_ns(since), version, cmdline, job, job_role, launcher, rank, world_size,"
    " local_rank, node_rank, restart, parallel, variables, host FROM probing.targets ORDER BY host, rank, "
    "pid";

Json OrObject(const Json& text) {
  Json parsed = text.is_string() ? Json::parse(text.get<std::string>(), nullptr, false) : Json();
  return parsed.is_object() ? parsed : Json::object();
}

asio::awaitable<Result<Json>> GetConfig(Daemon& daemon) {
  const Result<Json> answer = co_await QueryRows(
      daemon, "SELECT name, value, default_value, description FROM probing.config ORDER BY name");
  if (!answer.ok()) co_return answer.error();
  Json settings = Json::array();
  for (const Json& row : (*answer)["rows"])
    settings.push_back({{"name", row[0]}, {"value", row[1]}, {"default", row[2]}, {"description", row[3]}});
  co_return Json{{"settings", std::move(settings)}};
}

asio::awaitable<Result<Content>> PostQuery(Daemon& daemon, const Request& request) {
  const Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  co_return co_await daemon.queries.Answer(request, *pid);
}

}  // namespace

asio::awaitable<Result<Json>> ListRecorded(Daemon& daemon) {
  const Result<Json> answer = co_await QueryRows(daemon, kTargetsSql);
  if (!answer.ok()) co_return answer.error();
  Json list = Json::array();
  for (const Json& row : (*answer)["rows"]) {
    Json job{{"name", row[6]},        {"role", row[7]},        {"launcher", row[8]},   {"rank", row[9]},
             {"world_size", row[10]}, {"local_rank", row[11]}, {"node_rank", row[12]}, {"restart", row[13]}};
    job["parallel"] = OrObject(row[14]);
    job["variables"] = OrObject(row[15]);
    const auto text = [](const Json& value) { return value.is_string() ? value : Json(""); };
    list.push_back({{"pid", row[0]},
                    {"user", ""},
                    {"state", text(row[1])},
                    {"python", text(row[2])},
                    {"how", "recorded"},
                    {"started_ns", row[3].is_number() ? row[3] : Json(0)},
                    {"version", text(row[4])},
                    {"command", text(row[5])},
                    {"job", std::move(job)}});
  }
  co_return Json{{"targets", std::move(list)}};
}

asio::awaitable<Result<Content>> RecordedBacktrace(Daemon& daemon, const Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  backtrace::Options options;
  if (const auto tid = request.query.find("tid"); tid != request.query.end()) {
    pid_t number = 0;
    if (!ParseNumber(tid->second, number)) co_return Error{Code::kUsage, "tid is a thread id", ""};
    options.selection.tid = number;
  }
  options.locals = request.query.contains("locals") && request.right >= server::Right::kEval;
  const Result<Json> answer = co_await QueryRows(daemon, backtrace::RecordedSql(options), *pid);
  if (!answer.ok()) co_return answer.error();
  const std::vector<backtrace::RecordedProcess> processes = backtrace::PicturesOf((*answer)["rows"], options);
  if (processes.empty())
    co_return Error{Code::kNotFound,
                    "there are no stacks of process " + std::to_string(*pid) + " in the file", ""};
  const backtrace::Picture& picture = processes.front().picture;
  const auto format = request.query.find("format");
  if (format == request.query.end() || format->second != "text")
    co_return Content{"application/json", backtrace::PictureToJson(picture), 200, {}};
  co_return Content{"text/plain; charset=utf-8", backtrace::PictureToText(picture, {}), 200, {}};
}

void AddFileRoutes(server::Router& router, Daemon& daemon) {
  using server::Right;
  router.Add("GET", wire::kHealthRoute, Right::kRead, [](const Request&) -> asio::awaitable<Result<Json>> {
    co_return Json{{"status", "ok"}, {"version", PROBING_VERSION}, {"pid", getpid()}};
  });
  router.Add("GET", wire::kTargetsRoute, Right::kRead, [&](const Request&) { return ListRecorded(daemon); });
  router.Add("GET", wire::kStatusRoute, Right::kRead,
             [&](const Request& request) -> asio::awaitable<Result<Json>> {
               co_return Json{{"pid", getpid()},
                              {"version", PROBING_VERSION},
                              {"file", daemon.file},
                              {"right", std::string(server::RightName(request.right))}};
             });
  router.Add("GET", wire::kConfigRoute, Right::kRead, [&](const Request&) { return GetConfig(daemon); });
  router.AddContent("POST", wire::kQueryRoute, Right::kRead,
                    [&](const Request& request) { return PostQuery(daemon, request); });
  router.AddContent("GET", wire::kBacktraceRoute, Right::kRead,
                    [&](const Request& request) { return RecordedBacktrace(daemon, request); });
  AddServerRoutes(router, daemon);
  AddLiveRoutes(router, daemon);
  AddMcp(router, daemon);
  AddDiagnosis(router, daemon);
  AddWebPage(router, daemon);
}

}  // namespace probing::daemon
