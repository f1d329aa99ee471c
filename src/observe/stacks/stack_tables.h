// python.backtrace and python.stacks: where the threads of a target are, as rows of SQL.
//
// Read from outside when a query asks, so they answer while the job hangs; nothing is stopped, and
// only what the query's columns need is looked at.
#pragma once

#include <memory>
#include <vector>

#include "table/source.h"

namespace probing::observe {

std::vector<std::shared_ptr<table::Source>> StackSources();

}  // namespace probing::observe
