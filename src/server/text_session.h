// The text protocol: what `nc` speaks. One command or SQL statement on each line.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "server/access.h"
#include "wire/address.h"

namespace probing::server {

struct Connection;

// What a conversation remembers.
struct TextState {
  Right right = Right::kNone;
  std::string peer;           // for logs
  std::string target;         // chosen by `use`
  wire::Address served_at{};  // as Request::served_at
};

// The answer to one line, ending in a newline, or "" for none.
using LineHandler = std::function<boost::asio::awaitable<std::string>(TextState&, const std::string& line)>;

// Answers until the client says `quit`, or has said all (it may have closed its side), or nothing for
// too long. `refused` is told of those who have to leave.
// Lifetime: everything outlives the coroutine.
boost::asio::awaitable<void> RunTextSession(Connection& connection, Access& access,
                                            const LineHandler& handler,
                                            const std::function<void(const Peer&, const Error&)>& refused);

}  // namespace probing::server
