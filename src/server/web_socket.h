// A WebSocket on a connection that asked for one. Internal to src/server.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "server/connection.h"
#include "server/http_translate.h"
#include "server/router.h"

namespace probing::server {

// Until the handler returns or the client has gone, which cancels the handler.
// Lifetime: everything outlives the coroutine.
boost::asio::awaitable<void> RunWebSocket(Connection& connection, const RawRequest& raw,
                                          const SocketHandler& handler, const Request& request);

}  // namespace probing::server
