// Events that other programs notice.
#pragma once

#include "daemon/api.h"
#include "daemon/stalls.h"

namespace probing::daemon {

// POST events.
void AddStallRoutes(server::Router& router, Daemon& daemon, Stalls& stalls);

}  // namespace probing::daemon
