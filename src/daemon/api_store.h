// Questions that the store of many hosts answers (probing.store, `probing -t clickhouse://…`).
#pragma once

#include "daemon/api.h"
#include "wire/store_url.h"

namespace probing::daemon {

// POST query with `store`: the URL of one, which takes the user's own right because it is this machine that
// goes there; or true for the one of probing.store, which everybody may read who may read this host.
boost::asio::awaitable<Result<server::Content>> AnswerFromStore(Daemon& daemon,
                                                                const server::Request& request);

// Which store a request names: a field of it, as above.
Result<wire::StoreUrl> StoreOf(const Daemon& daemon, const server::Request& request,
                               const server::Json& store);

// The rows of a query there, as {columns, rows}.
boost::asio::awaitable<Result<server::Json>> StoreRows(Daemon& daemon, const wire::StoreUrl& url,
                                                       std::string sql);

void AddStoreRoutes(server::Router& router, Daemon& daemon);  // DDL

}  // namespace probing::daemon
