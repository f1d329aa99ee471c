// Leaves the frames of the probe's own functions out of a picture: a user sees his program.
#pragma once

#include <vector>

#include "backtrace/backtrace.h"

namespace probing::backtrace {

// Threads that have no others keep them.
void LeaveOutOwnFrames(std::vector<ShownThread>& threads);

}  // namespace probing::backtrace
