// Live tables that only probingd can make: its own state, what its samplers saw, and what a probe
// answers. For query::Provider.
#pragma once

#include "cluster/gathering.h"
#include "daemon/history.h"
#include "daemon/outlets.h"
#include "daemon/sampling.h"
#include "daemon/targets.h"
#include "table/rows.h"
#include "table/source.h"
#include "wire/settings.h"

namespace probing::daemon {

struct DaemonState {
  const Targets& targets;
  const Sampling& sampling;
  const History& history;
  const Outlets& outlets;
  const cluster::Company& company;  // for cluster.nodes
  const wire::Settings& settings;
};

// REQUIRES: the daemon's thread. `columns` are indexes into table.columns.
Result<table::Rows> DaemonRows(const DaemonState& state, const table::Table& table,
                               const table::Target* target, const std::vector<std::size_t>& columns);

// Waits for the probe; on any thread but the daemon's.
Result<table::Rows> AskProbe(const table::Table& table, const table::Target& target,
                             const std::vector<std::size_t>& columns);

}  // namespace probing::daemon
