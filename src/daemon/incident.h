// Collects an incident: all rows that are known of the processes here, or of one job or process, the settings
// and the diagnosis of this moment, as the bytes of one file (src/incident).
//
// Every table is asked with a query like anybody's, so what a query shows the file has, and nothing else. Of
// a table that is large its newest rows are taken; none takes more than half of the room that is left. Texts
// that are secrets are starred out: our own tokens, and the values of variables of the targets' environment
// that are called so. Local variables are in it only when they are asked for.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/api.h"

namespace probing::daemon {

inline constexpr std::uint64_t kIncidentBytes = 20U << 20;

struct IncidentRequest {
  std::optional<pid_t> target;  // nothing: all of this host
  std::string job;              // or this one, also on other hosts; "" for none
  bool locals = false;
  std::uint64_t max_bytes = kIncidentBytes;
  std::string reason = "asked";  // or the class of the finding that asked for it
};

// The bytes of the file. REQUIRES: the arguments outlive the coroutine.
boost::asio::awaitable<Result<std::string>> CollectIncident(Daemon& daemon, const IncidentRequest& request);

}  // namespace probing::daemon
