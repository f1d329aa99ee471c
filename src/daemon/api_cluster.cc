// GET /api/v1/node: what other hosts' probingd want to know of this one.
#include "base/clock.h"
#include "daemon/api.h"
#include "daemon/host_name.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace {

// Nothing is waited for: half of the time this takes is how wrong the clock may be taken.
boost::asio::awaitable<Result<server::Json>> GetNode(Daemon& daemon) {
  co_return server::Json{{"instance", daemon.members.instance()},
                         {"host", HostName()},
                         {"version", PROBING_VERSION},
                         {"ranks", daemon.targets.live()},
                         {"wall_ns", WallNs()}};
}

}  // namespace

void AddClusterRoutes(server::Router& router, Daemon& daemon) {
  router.Add("GET", wire::kNodeRoute, server::Right::kRead,
             [&](const server::Request&) { return GetNode(daemon); });
}

}  // namespace probing::daemon
