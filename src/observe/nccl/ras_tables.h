// nccl.ras_communicators and nccl.ras_ranks: what NCCL's RAS ports of this host say, read when asked for.
#pragma once

#include <memory>
#include <vector>

#include "table/source.h"

namespace probing::observe {

// Thread-safe. Processes of one job share a port: each port is asked once for a query.
std::vector<std::shared_ptr<table::Source>> RasSources();

}  // namespace probing::observe
