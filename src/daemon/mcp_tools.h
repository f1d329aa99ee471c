// What an AI agent can do here: each tool with its name, arguments and right.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "daemon/api.h"

namespace probing::daemon {

struct McpTool {
  std::string name;
  std::string description;
  server::Json schema;  // of its arguments
  server::Right right = server::Right::kRead;
  // The answer as text. Lifetime: the arguments outlive the coroutine.
  boost::asio::awaitable<Result<std::string>> (*run)(Daemon& daemon, const server::Request& request,
                                                     const server::Json& arguments) = nullptr;
};

// Those that may be used with this right. eval takes the setting probing.mcp.eval, too.
std::vector<const McpTool*> McpToolsFor(const Daemon& daemon, server::Right right);
// Null when there is none, or when it may not be used.
const McpTool* FindMcpTool(const Daemon& daemon, server::Right right, const std::string& name);

}  // namespace probing::daemon
