// Answers that go on: events for charts.
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>

#include "base/text.h"
#include "daemon/api_probe.h"
#include "server/http_session.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

constexpr double kFastestSeconds = 0.1;
constexpr double kSlowestSeconds = 3600;
constexpr std::size_t kMaxQueries = 32;
constexpr auto kStillHere = std::chrono::seconds(15);  // proxies drop connections that say nothing

Result<double> IntervalOf(const Request& request) {
  const auto field = request.query.find("interval");
  if (field == request.query.end()) return 1.0;
  double seconds = 0;
  const std::string& text = field->second;
  if (!ParseNumber(text, seconds) || !(seconds >= kFastestSeconds && seconds <= kSlowestSeconds))
    return Error{Code::kUsage, "interval is a number of seconds from 0.1 to 3600", ""};
  return seconds;
}

std::string Event(const char* name, const Json& data) {
  return std::string("event: ") + name + "\ndata: " + server::JsonText(data) + "\n\n";
}

using NamedSql = std::map<std::string, std::string>;

// ?queries={"name": "SELECT …"}, empty when there is none.
Result<NamedSql> QueriesOf(const Request& request) {
  NamedSql queries;
  const auto field = request.query.find("queries");
  if (field == request.query.end()) return queries;
  const Json object = server::IsTooDeep(field->second) ? Json() : Json::parse(field->second, nullptr, false);
  const Error wrong{Code::kUsage, "queries is an object of SQL by name", R"(as in {"steps": "SELECT …"})"};
  if (!object.is_object() || object.empty() || object.size() > kMaxQueries) return wrong;
  for (const auto& [name, sql] : object.items()) {
    if (!sql.is_string()) return wrong;
    queries[name] = sql.get<std::string>();
  }
  return queries;
}

// The rows of those whose rows are not the same as before; `last` remembers them.
asio::awaitable<Result<Json>> ChangedResults(Daemon& daemon, const NamedSql& queries,
                                             std::optional<pid_t> pid,
                                             std::map<std::string, std::size_t>& last) {
  Json changed = Json::object();
  for (const auto& [name, sql] : queries) {
    Result<Json> rows = co_await QueryRows(daemon, sql, pid);
    if (!rows.ok()) co_return rows.error();
    const std::size_t hash = std::hash<Json>()(*rows);
    const auto [known, is_new] = last.try_emplace(name, hash);
    if (!is_new && known->second == hash) continue;
    known->second = hash;
    changed[name] = std::move(*rows);
  }
  co_return changed;
}

// `targets` whenever they change; with ?sql= the rows of that query as often as wanted; with ?queries= those
// of several, whenever they change.
asio::awaitable<Result<void>> FollowEvents(Daemon& daemon, const Request& request, const server::Send& send) {
  const Result<double> seconds = IntervalOf(request);
  if (!seconds.ok()) co_return seconds.error();
  const Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  const auto sql = request.query.find("sql");
  const Result<NamedSql> queries = QueriesOf(request);
  if (!queries.ok()) co_return queries.error();
  std::map<std::string, std::size_t> results;
  std::string last;
  auto last_sent = std::chrono::steady_clock::now();
  while (true) {
    std::string event;
    if (sql != request.query.end()) {
      const Result<Json> rows = co_await QueryRows(daemon, sql->second, *pid);
      if (!rows.ok()) co_return rows.error();
      event = Event("rows", *rows);
    } else if (!queries->empty()) {
      const Result<Json> changed = co_await ChangedResults(daemon, *queries, *pid, results);
      if (!changed.ok()) co_return changed.error();
      if (!changed->empty()) event = Event("results", *changed);
    } else {
      const Result<Json> targets = co_await ListTargets(daemon, Targets::Look::kQuick);
      if (!targets.ok()) co_return targets.error();
      event = Event("targets", *targets);
      if (event == last) event.clear();
    }
    if (!event.empty()) last = event;
    const auto now = std::chrono::steady_clock::now();
    if (event.empty() && now - last_sent > kStillHere) event = ": still here\n\n";
    if (!event.empty()) {
      last_sent = now;
      const bool sent = co_await send(event);
      if (!sent) co_return Result<void>();
    }
    asio::steady_timer timer(daemon.io, std::chrono::milliseconds(static_cast<int>(*seconds * 1000)));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

}  // namespace

void AddLiveRoutes(server::Router& router, Daemon& daemon) {
  router.AddEvents(
      wire::kEventsRoute, server::Right::kRead,
      [&](const Request& request, const server::Send& send) { return FollowEvents(daemon, request, send); });
  router.AddSocket(wire::kReplRoute, server::Right::kEval,
                   [&](const Request& request, const server::Receive& receive, const server::Send& send) {
                     return Repl(daemon, request, receive, send);
                   });
}

}  // namespace probing::daemon
