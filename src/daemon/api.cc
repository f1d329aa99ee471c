#include "daemon/api.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "daemon/api_probe.h"
#include "daemon/api_store.h"
#include "daemon/job_json.h"
#include "process/status.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using namespace std::chrono_literals;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr std::size_t kMostRoots = 1024;

Json TargetToJson(const Target& target) {
  return {{"pid", target.pid},         {"user", target.user},       {"state", TargetStateName(target.state)},
          {"python", target.python},   {"how", target.how},         {"started_ns", target.started_ns},
          {"version", target.version}, {"command", target.command}, {"job", JobToJson(target.identity)}};
}

std::int64_t ResidentBytes() {
  const Result<std::string> statm = ReadFile("/proc/self/statm");
  if (!statm.ok()) return 0;
  const std::size_t space = statm->find(' ') + 1;
  std::int64_t pages = 0;
  ParseNumber(std::string_view(*statm).substr(space, statm->find(' ', space) - space), pages);
  return pages * sysconf(_SC_PAGESIZE);
}

std::string Addresses(const Daemon& daemon) {
  std::string list;
  for (const wire::Address& address : daemon.server.addresses())
    list += (list.empty() ? "" : ", ") + address.ToText();
  return list;
}

Answer GetHealth(const server::Request&) {
  co_return Json{{"status", "ok"}, {"version", PROBING_VERSION}, {"pid", getpid()}};
}

Answer GetStatus(Daemon& daemon, const server::Request& request) {
  Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  if (!pid->has_value()) {
    co_await daemon.targets.Refresh();
    co_return Json{{"pid", getpid()},
                   {"version", PROBING_VERSION},
                   {"uptime_s", (MonotonicNs() - daemon.started_ns) / 1'000'000'000},
                   {"targets", daemon.targets.live()},
                   {"rss_bytes", ResidentBytes()},
                   {"right", std::string(server::RightName(request.right))},
                   {"listening", Addresses(daemon)}};
  }
  const Result<wire::Message> probe = co_await AskProbe(daemon, **pid, wire::Message::Request(0, "status"));
  if (!probe.ok()) co_return probe.error();
  const Result<process::Status> status = process::ReadStatus(**pid);
  if (!status.ok()) co_return status.error();
  co_return Json{{"pid", **pid},
                 {"command", process::CommandLine(**pid)},
                 {"process_state", std::string(1, status->state)},
                 {"process_threads", status->threads},
                 {"probe", FieldsToJson(*probe)}};
}

// "target", or "targets": several that are sampled at the same moments.
Result<std::vector<observe::Root>> RootsOf(const server::Request& request) {
  std::vector<observe::Root> roots;
  const auto list = request.body.find("targets");
  if (list == request.body.end()) {
    ASSIGN_OR_RETURN(const pid_t pid, RequiredTarget(request));
    roots.push_back({pid});
    return roots;
  }
  const Error wrong{Code::kUsage, "targets is a list of {pid, rank?}", R"(as in [{"pid": 1234, "rank": 0}])"};
  if (!list->is_array() || list->empty() || list->size() > kMostRoots) return wrong;
  for (const Json& each : *list) {
    const Json pid = each.is_object() ? each.value("pid", Json()) : Json();
    const Json rank = each.is_object() ? each.value("rank", Json()) : Json();
    if (!pid.is_number_integer() || pid.get<std::int64_t>() <= 0 || pid.get<std::int64_t>() > INT32_MAX)
      return wrong;
    observe::Root root{pid.get<pid_t>()};
    if (rank.is_number_integer()) root.rank = rank.get<std::int64_t>();
    roots.push_back(root);
  }
  return roots;
}

Answer PostProfile(Daemon& daemon, const server::Request& request) {
  Result<std::vector<observe::Root>> roots = RootsOf(request);
  if (!roots.ok()) co_return roots.error();
  co_return co_await daemon.sampling.Record(std::move(*roots), request.body);
}

Answer GetSamples(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  co_return daemon.sampling.Samples(*pid);
}

asio::awaitable<Result<server::Content>> PostQuery(Daemon& daemon, const server::Request& request) {
  const Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  if (request.body.contains("store")) co_return co_await AnswerFromStore(daemon, request);
  co_return co_await daemon.queries.Answer(request, *pid);
}

asio::awaitable<void> ShutDownSoon(Daemon& daemon) {
  asio::steady_timer answered(daemon.io, 20ms);  // whoever asked should read the answer
  co_await answered.async_wait(asio::use_awaitable);
  daemon.shutdown();
}

Answer PostShutdown(Daemon& daemon) {
  asio::co_spawn(daemon.io, ShutDownSoon(daemon), asio::detached);
  co_return Json::object();
}

}  // namespace

Result<std::optional<pid_t>> TargetOf(const server::Request& request) {
  std::string text;
  if (const auto query = request.query.find("target"); query != request.query.end()) {
    text = query->second;
  } else if (const auto field = request.body.find("target"); field != request.body.end()) {
    text = field->is_string() ? field->get<std::string>() : field->dump();
  } else {
    return std::optional<pid_t>();
  }
  pid_t pid = 0;
  if (!ParseNumber(text, pid) || pid <= 0)
    return Error{Code::kUsage, "\"" + text + "\" is not a target", "a target is a pid"};
  return std::optional(pid);
}

Result<pid_t> RequiredTarget(const server::Request& request) {
  ASSIGN_OR_RETURN(const std::optional<pid_t> pid, TargetOf(request));
  if (!pid) return Error{Code::kUsage, request.path + " needs a target", ""};
  return *pid;
}

Answer ListTargets(Daemon& daemon, Targets::Look look) {
  if (!daemon.file.empty()) co_return co_await ListRecorded(daemon);
  co_await daemon.targets.Refresh(look);
  Json list = Json::array();
  for (const Target* target : daemon.targets.Shown()) list.push_back(TargetToJson(*target));
  co_return Json{{"targets", std::move(list)}};
}

server::Request RowsRequest(std::string sql) {
  server::Request request;
  request.path = std::string(wire::kQueryRoute);
  request.body = Json{{"sql", std::move(sql)}, {"format", "rows"}};
  return request;
}

asio::awaitable<Result<Json>> QueryRows(Daemon& daemon, std::string sql, std::optional<pid_t> target) {
  co_return co_await QueryRows(daemon, RowsRequest(std::move(sql)), target);
}

asio::awaitable<Result<Json>> QueryRows(Daemon& daemon, server::Request request,
                                        std::optional<pid_t> target) {
  const Result<server::Content> answer = co_await daemon.queries.Answer(request, target);
  if (!answer.ok()) co_return answer.error();
  Json rows = Json::parse(answer->body, nullptr, false);
  if (!rows.is_object()) co_return Error{Code::kFailed, "the query gave no rows", ""};
  co_return rows;
}

void AddRoutes(server::Router& router, Daemon& daemon) {
  using server::Request;
  using enum server::Right;
  router.Add("GET", wire::kHealthRoute, kRead, GetHealth);
  router.Add("GET", wire::kTargetsRoute, kRead, [&](const Request&) { return ListTargets(daemon); });
  router.Add("GET", wire::kStatusRoute, kRead,
             [&](const Request& request) { return GetStatus(daemon, request); });
  router.Add("POST", wire::kProfileRoute, kProfile,
             [&](const Request& request) { return PostProfile(daemon, request); });
  router.Add("GET", wire::kSamplesRoute, kRead,
             [&](const Request& request) { return GetSamples(daemon, request); });
  router.AddContent("POST", wire::kQueryRoute, kRead,
                    [&](const Request& request) { return PostQuery(daemon, request); });
  router.Add("POST", wire::kShutdownRoute, kOwn, [&](const Request&) { return PostShutdown(daemon); });
  AddEvalRoutes(router, daemon);
  AddConfigRoutes(router, daemon);
  AddInjectRoute(router, daemon);
  AddSourceRoute(router, daemon);
  AddStackRoutes(router, daemon);
  AddProfileRoute(router, daemon);
  AddGpuMemoryRoute(router, daemon);
  AddIncidentRoute(router, daemon);
  AddServerRoutes(router, daemon);
  AddLiveRoutes(router, daemon);
  AddMetrics(router, daemon);
  AddMcp(router, daemon);
  AddDiagnosis(router, daemon);
  AddClusterRoutes(router, daemon);
  AddStoreRoutes(router, daemon);
  AddWebPage(router, daemon);
}

}  // namespace probing::daemon