// HTTP/1.1 on one connection: keep-alive, WebSocket, server-sent events.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>

#include "server/access.h"
#include "server/router.h"

namespace probing::server {

struct Connection;

struct HttpContext {
  const Router& router;
  Access& access;
  std::function<void(const Peer&, const Error&)> refused;  // for the audit log
  std::function<void(int change)> running;                 // +1 when a request starts, −1 when it is done
};

// Answers until the client has gone, sends nonsense, or is too slow. The first bytes may be in
// connection.buffer already. Lifetime: connection and context outlive the coroutine.
boost::asio::awaitable<void> RunHttpSession(Connection& connection, const HttpContext& context);

// Bodies are JSON of a few levels; a million brackets would take the reader's stack.
bool IsTooDeep(std::string_view json);

}  // namespace probing::server
