// What a graph comes to: how much each class takes, and what holds most.
#pragma once

#include "heap/chain.h"
#include "heap/dominators.h"
#include "heap/heap.h"

namespace probing::heap {

// Fills `report` with what is in the graph.
void Summarize(Graph& graph, const cpython::Location& location, const Options& options, Report& report);

}  // namespace probing::heap
