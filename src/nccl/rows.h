// nccl.collectives and nccl.network: rows of events that are over, through the probe of this process.
#pragma once

#include "nccl/context.h"
#include "nccl/events.h"

namespace probing::nccl {

// Looks for the probe and opens the tables; false when there is none. Not hot: when a communicator is made.
bool OpenTables();

// Hot: no lock, no allocation. Nothing happens when the probe has left meanwhile.
void WriteOperation(const Event& event);
void WriteNetwork(const Event& event, const Event* operation);

}  // namespace probing::nccl
