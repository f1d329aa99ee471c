// What the routes of wire/contract.h do.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "daemon/queries.h"
#include "daemon/sampling.h"
#include "daemon/targets.h"
#include "server/router.h"
#include "wire/settings.h"

namespace probing::daemon {

// Lifetime: everything passed in outlives io.run(). `shutdown` makes the daemon end.
struct Daemon {
  boost::asio::io_context& io;
  Targets& targets;
  Sampling& sampling;
  Queries& queries;
  wire::Settings& settings;
  std::int64_t started_ns;  // MonotonicNs
  std::function<void()> shutdown;
};

void AddRoutes(server::Router& router, Daemon& daemon);

}  // namespace probing::daemon
