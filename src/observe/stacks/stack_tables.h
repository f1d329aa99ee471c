// python.backtrace, python.stacks and python.native_stacks: where the threads of a target are, as rows of
// SQL.
//
// Read from outside when a query asks, so they answer while the job hangs; only what the query's columns need
// is looked at. Nothing is stopped, but for python.native_stacks a thread that runs is held for a moment.
#pragma once

#include <memory>
#include <vector>

#include "table/source.h"

namespace probing::observe {

std::vector<std::shared_ptr<table::Source>> StackSources();

}  // namespace probing::observe
