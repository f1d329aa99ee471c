// Answers that go on: events for charts.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <memory>
#include <vector>

#include "base/text.h"
#include "daemon/api_probe.h"
#include "daemon/shared_answer.h"
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
constexpr std::chrono::milliseconds kOldest{500};      // what another client was told may be told again
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

// `json` on one line: an event's data ends with its line, and between JSON's words a blank says the same.
std::string Event(const std::string& name, std::string json) {
  std::ranges::replace(json, '\n', ' ');
  return "event: " + name + "\ndata: " + json + "\n\n";
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

struct Stream {
  std::string name;
  std::shared_ptr<SharedAnswer> source;  // with all others who follow the same
  SharedAnswer::Pointer last = nullptr;
};

// What one client wants to hear.
struct Wish {
  std::string event;
  bool also_the_same = false;  // again when nothing has changed
  bool is_named = false;       // {name: answer} of the streams that have
  std::vector<Stream> streams;
};

std::shared_ptr<SharedAnswer> FollowSql(Daemon& daemon, const std::string& sql, std::optional<pid_t> pid) {
  return daemon.queries.Follow(RowsRequest(sql), pid);
}

// `targets` whenever they change; with ?sql= the rows of that query as often as wanted; with ?queries= those
// of several, whenever they change.
Result<Wish> WishOf(Daemon& daemon, SharedAnswers& lists, const Request& request) {
  ASSIGN_OR_RETURN(const std::optional<pid_t> pid, TargetOf(request));
  ASSIGN_OR_RETURN(const NamedSql queries, QueriesOf(request));
  if (const auto sql = request.query.find("sql"); sql != request.query.end()) {
    Wish rows{.event = "rows", .also_the_same = true};
    rows.streams.push_back({"", FollowSql(daemon, sql->second, pid)});
    return rows;
  }
  if (!queries.empty()) {
    Wish results{.event = "results", .is_named = true};
    for (const auto& [name, sql] : queries) results.streams.push_back({name, FollowSql(daemon, sql, pid)});
    return results;
  }
  Wish targets{.event = "targets"};
  const auto list = [&daemon]() -> asio::awaitable<Result<server::Content>> {
    const Result<Json> json = co_await ListTargets(daemon, Targets::Look::kQuick);
    if (!json.ok()) co_return json.error();
    co_return server::Content{"application/json", server::JsonText(*json), 200, {}};
  };
  targets.streams.push_back({"", lists.Get("targets", list)});
  return targets;
}

// The next event, or "" when nothing has changed.
asio::awaitable<Result<std::string>> NextEvent(Wish& wish, std::chrono::nanoseconds age) {
  std::string data;
  for (Stream& stream : wish.streams) {
    const Result<SharedAnswer::Pointer> answer = co_await stream.source->Get({.age = age});
    if (!answer.ok()) co_return answer.error();
    if (stream.last == *answer && !wish.also_the_same) continue;
    stream.last = *answer;
    if (!data.empty()) data += ",";
    if (wish.is_named) data += server::JsonText(stream.name) + ":";
    data += (*answer)->body;
  }
  if (data.empty()) co_return data;
  co_return Event(wish.event, wish.is_named ? "{" + data + "}" : data);
}

asio::awaitable<Result<void>> FollowEvents(Daemon& daemon, SharedAnswers& lists, const Request& request,
                                           const server::Send& send) {
  const Result<double> seconds = IntervalOf(request);
  if (!seconds.ok()) co_return seconds.error();
  const auto interval = std::chrono::milliseconds(static_cast<int>(*seconds * 1000));
  Result<Wish> wish = WishOf(daemon, lists, request);
  if (!wish.ok()) co_return wish.error();
  auto last_sent = std::chrono::steady_clock::now();
  while (true) {
    Result<std::string> event = co_await NextEvent(*wish, std::min(interval / 2, kOldest));
    if (!event.ok()) co_return event.error();
    const auto now = std::chrono::steady_clock::now();
    if (event->empty() && now - last_sent > kStillHere) *event = ": still here\n\n";
    if (!event->empty()) {
      last_sent = now;
      const bool sent = co_await send(*event);
      if (!sent) co_return Result<void>();
    }
    asio::steady_timer timer(daemon.io, interval);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

}  // namespace

void AddLiveRoutes(server::Router& router, Daemon& daemon) {
  router.AddEvents(wire::kEventsRoute, server::Right::kRead,
                   [&daemon, lists = std::make_shared<SharedAnswers>(daemon.io)](const Request& request,
                                                                                 const server::Send& send) {
                     return FollowEvents(daemon, *lists, request, send);
                   });
  if (!daemon.file.empty()) return;  // nobody to talk to
  router.AddSocket(wire::kReplRoute, server::Right::kEval,
                   [&](const Request& request, const server::Receive& receive, const server::Send& send) {
                     return Repl(daemon, request, receive, send);
                   });
}

}  // namespace probing::daemon
