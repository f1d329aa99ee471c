// Settings of probingd that a job was started with: PROBING_STORE and PROBING_CLUSTER_PEERS in its
// environment count, too, when probingd runs already and nothing else has set them.
#pragma once

#include "daemon/api.h"

namespace probing::daemon {

// From now on, for every target that says hello. Lifetime: `daemon` outlives the targets.
void FollowSettingsOfJobs(Daemon& daemon);

}  // namespace probing::daemon
