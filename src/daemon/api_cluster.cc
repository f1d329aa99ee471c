// GET /api/v1/node: what other hosts' probingd want to know of this one.
#include "base/clock.h"
#include "daemon/api.h"
#include "daemon/host_name.h"
#include "daemon/tokens.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace {

// Nothing is waited for: half of the time this takes is how wrong the clock may be taken.
boost::asio::awaitable<Result<server::Json>> GetNode(Daemon& daemon, const server::Request& request) {
  // Who asks nobody does not need to know who could be asked.
  const bool has_peers = daemon.settings.Get("probing.cluster.peers") != "none";
  const auto from = request.query.find("from");
  // Whom we are led to is shown our token: who leads us must have one that allows as much.
  static const server::Right needed = TokenForOthers().right;
  if (has_peers && from != request.query.end() && !request.peer_address.empty() && request.right >= needed)
    daemon.members.Introduce(from->second, request.peer_address);
  co_return server::Json{{"instance", daemon.members.instance()},
                         {"host", HostName()},
                         {"version", PROBING_VERSION},
                         {"ranks", daemon.targets.live()},
                         {"wall_ns", WallNs()},
                         {"knows", has_peers ? daemon.members.Known() : std::vector<std::string>()}};
}

}  // namespace

void AddClusterRoutes(server::Router& router, Daemon& daemon) {
  router.Add("GET", wire::kNodeRoute, server::Right::kRead,
             [&](const server::Request& request) { return GetNode(daemon, request); });
}

}  // namespace probing::daemon
