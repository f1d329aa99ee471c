// The daemon about itself: addresses, tokens, tables, whether it is ready, what can be asked.
#include "base/quote.h"
#include "daemon/api.h"
#include "daemon/audit.h"
#include "daemon/openapi.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;
using Answer = asio::awaitable<Result<Json>>;

namespace {

Answer PostListen(Daemon& daemon, const Request& request) {
  const auto text = request.body.find("address");
  if (text == request.body.end() || !text->is_string())
    co_return Error{Code::kUsage, "listen needs an address", "as in {\"address\": \"127.0.0.1:3344\"}"};
  const Result<wire::Address> address = wire::ParseAddress(text->get<std::string>());
  if (!address.ok()) co_return address.error();
  const bool close = request.body.value("close", Json(false)) == true;
  const Result<void> done = close ? daemon.listening.Remove(*address) : daemon.listening.Add(*address);
  if (!done.ok()) co_return done.error();
  Json answer{{"addresses", Json::array()}};
  for (const wire::Address& each : daemon.server.addresses()) answer["addresses"].push_back(each.ToText());
  const bool quiet = request.body.value("quiet", Json(false)) == true;
  if (quiet) co_return answer;
  Audit(close ? "close" : "listen", {{"by", request.peer}, {"address", address->ToText()}});
  if (!close && !wire::IsLoopback(address->host)) answer["fingerprint"] = daemon.listening.fingerprint();
  if (!close) answer["link"] = daemon.listening.Link(*address, server::Right::kEval);
  co_return answer;
}

Answer GetToken(Daemon& daemon) {
  Json answer = Json::object();
  for (const server::Right right : {server::Right::kRead, server::Right::kProfile, server::Right::kEval})
    answer[std::string(server::RightName(right))] = daemon.access.TokenOf(right);
  co_return answer;
}

// Whether queries are answered: this is what takes the longest to start.
Answer GetReady(Daemon& daemon) {
  const Result<Json> rows = co_await QueryRows(daemon, "SELECT 1");
  if (!rows.ok()) co_return rows.error();
  co_return Json{{"status", "ready"}, {"targets", daemon.targets.live()}};
}

Answer GetTables(Daemon& daemon, const Request& request) {
  const Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  const auto table = request.query.find("table");
  std::string sql = "SELECT table_name, kind, origin, doc FROM probing.tables ORDER BY table_name";
  if (table != request.query.end()) {
    sql = "SELECT column_name, type, unit, doc FROM probing.columns WHERE table_name = " +
          QuoteForSql(table->second) + " ORDER BY position";
  }
  co_return co_await QueryRows(daemon, std::move(sql), *pid);
}

asio::awaitable<Result<server::Content>> GetOpenApi() {
  co_return server::Content{"application/json", std::string(kOpenApi), 200, {}};
}

}  // namespace

void AddServerRoutes(server::Router& router, Daemon& daemon) {
  using enum server::Right;
  router.Add("POST", wire::kListenRoute, kOwn,
             [&](const Request& request) { return PostListen(daemon, request); });
  router.Add("GET", wire::kTokenRoute, kOwn, [&](const Request&) { return GetToken(daemon); });
  router.Add("GET", wire::kReadyRoute, kRead, [&](const Request&) { return GetReady(daemon); });
  router.Add("GET", wire::kTablesRoute, kRead,
             [&](const Request& request) { return GetTables(daemon, request); });
  router.AddContent("GET", wire::kOpenApiRoute, kRead, [](const Request&) { return GetOpenApi(); });
}

}  // namespace probing::daemon
