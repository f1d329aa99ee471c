// audit.jsonl beside the daemon's socket (0600): which processes were probed, who had code run, settings
// changed, probes removed, and who was turned away.
#pragma once

#include <string_view>

#include "server/router.h"

namespace probing::daemon {

// {"time": …, "action": …, …}, a line each. Starts anew at 10 MB; the one before stays as audit.jsonl.1.
void Audit(std::string_view action, server::Json details);

}  // namespace probing::daemon
