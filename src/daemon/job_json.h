// Where a process stands in a job, for programs that ask.
#pragma once

#include <string>

#include "process/job_identity.h"
#include "server/router.h"

namespace probing::daemon {

// {name, role, launcher, rank, world_size, local_rank, node_rank, restart, parallel, variables}; null
// where nothing is known.
server::Json JobToJson(const process::JobIdentity& identity);

}  // namespace probing::daemon
