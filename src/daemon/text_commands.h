// What can be said to probingd in plain text (server/text_session.h).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "daemon/api.h"
#include "server/text_session.h"

namespace probing::daemon {

// The answer to one line: a command, or else SQL. Asks the router, so that rights are the same as for HTTP.
// Lifetime: everything outlives the coroutine.
boost::asio::awaitable<std::string> AnswerLine(Daemon& daemon, const server::Router& router,
                                               server::TextState& state, const std::string& line);
// The same when it is known who is probed here.
boost::asio::awaitable<std::string> AnswerLine(const std::vector<pid_t>& pids, const server::Router& router,
                                               server::TextState& state, const std::string& line);

// The first word of a line, and what follows it without the blanks between.
struct Words {
  std::string first;
  std::string rest;
};
Words SplitWord(const std::string& line);

}  // namespace probing::daemon
