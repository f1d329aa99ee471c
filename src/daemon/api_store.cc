#include "daemon/api_store.h"

#include "store/answer.h"
#include "store/schema.h"
#include "table/user_table.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

// What our own engine has to say to give the store's answer in every format.
asio::awaitable<Result<std::string>> SelectFrom(Daemon& daemon, const wire::StoreUrl& url, std::string sql) {
  store::AskOptions options;
  options.timeout_ms = static_cast<std::int64_t>(daemon.settings.GetNumber("probing.query.timeout") * 1000);
  options.max_rows = static_cast<std::int64_t>(daemon.settings.GetNumber("probing.query.rows"));
  const store::Client client(url);
  co_return co_await Aside(daemon, [&] { return store::AskStore(client, sql, options); });
}

// The declared tables, and those that the jobs of this host made.
std::vector<store::Shape> Shapes(const Daemon& daemon) {
  std::vector<store::Shape> shapes = store::DeclaredShapes();
  std::vector<table::Target> targets;
  for (const Target* target : daemon.targets.Known()) {
    targets.push_back({.pid = target->pid, .rank = {}, .host = "", .selected = true});
    targets.back().ring_fds = target->ring_fds;
  }
  for (const auto& table : table::FindUserTables(targets)) shapes.push_back(store::ShapeOf(table->table()));
  return shapes;
}

asio::awaitable<Result<server::Content>> GetDdl(Daemon& daemon, const Request& request) {
  const auto field = [&](const char* name, const char* otherwise) {
    const auto found = request.query.find(name);
    return found == request.query.end() || found->second.empty() ? std::string(otherwise) : found->second;
  };
  store::DdlOptions options{.database = field("database", "probing"),
                            .cluster = field("cluster", ""),
                            .replicated = field("replicated", "") == "1"};
  if (options.replicated && options.cluster.empty())
    co_return Error{Code::kUsage, "copies of the rows need a cluster",
                    "say which: --cluster NAME --replicated"};
  std::string text = store::DatabaseDdl(options) + ";\n\n";
  for (const store::Shape& shape : Shapes(daemon)) {
    for (const std::string& statement : store::TableDdl(shape, options)) text += statement + ";\n\n";
  }
  co_return server::Content{"text/plain; charset=utf-8", std::move(text), 200, {}};
}

}  // namespace

Result<wire::StoreUrl> StoreOf(const Daemon& daemon, const Request& request, const Json& store) {
  if (store == true) {
    const std::string_view own = daemon.settings.Get("probing.store");
    if (own == "none")
      return Error{Code::kUsage, "this probingd has no store",
                   "name one: probing config probing.store=clickhouse://HOST:8123/DATABASE"};
    return wire::ParseStoreUrl(own);
  }
  if (!store.is_string()) return Error{Code::kUsage, "store is true, or the URL of one", ""};
  if (request.right != server::Right::kOwn)
    return Error{Code::kPermission, "stores can be named over the unix socket only",
                 "run `probing -t clickhouse://… query …` on a machine that reaches it"};
  return wire::ParseStoreUrl(store.get<std::string>());
}

asio::awaitable<Result<server::Content>> AnswerFromStore(Daemon& daemon, const Request& request) {
  const Result<wire::StoreUrl> url = StoreOf(daemon, request, request.body["store"]);
  if (!url.ok()) co_return url.error();
  const auto sql = request.body.find("sql");
  if (sql == request.body.end() || !sql->is_string()) co_return Error{Code::kUsage, "a query needs sql", ""};
  Result<std::string> select = co_await SelectFrom(daemon, *url, sql->get<std::string>());
  if (!select.ok()) co_return select.error();
  Request ours = request;
  ours.body.erase("store");
  ours.body["sql"] = std::move(*select);
  co_return co_await daemon.queries.Answer(ours, std::nullopt);
}

asio::awaitable<Result<Json>> StoreRows(Daemon& daemon, const wire::StoreUrl& url, std::string sql) {
  Result<std::string> select = co_await SelectFrom(daemon, url, std::move(sql));
  if (!select.ok()) co_return select.error();
  co_return co_await QueryRows(daemon, std::move(*select));
}

void AddStoreRoutes(server::Router& router, Daemon& daemon) {
  router.AddContent("GET", wire::kStoreDdlRoute, server::Right::kRead,
                    [&](const Request& request) { return GetDdl(daemon, request); });
}

}  // namespace probing::daemon
