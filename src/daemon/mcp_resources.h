// What an AI agent can read: tables with their columns, guides; and prompts, which are made from the skills.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "daemon/api.h"

namespace probing::daemon {

// resources/list and resources/templates/list.
boost::asio::awaitable<Result<server::Json>> ListMcpResources(Daemon& daemon, const server::Request& request);
server::Json ListMcpTemplates();
// resources/read. kNotFound: there is no such resource.
boost::asio::awaitable<Result<server::Json>> ReadMcpResource(Daemon& daemon, const server::Request& request,
                                                             const std::string& uri);

// prompts/list and prompts/get. kNotFound: there is no such prompt.
server::Json ListMcpPrompts();
Result<server::Json> GetMcpPrompt(const std::string& name, const server::Json& arguments);

}  // namespace probing::daemon
