// The Debug Adapter Protocol on a socket of localhost: an editor attaches to a running process.
#pragma once

#include "cli/command.h"

namespace probing::cli {

// Serves one client, then ends; the thread goes on when the client is gone.
Result<int> ServeDebugAdapter(const Invocation& invocation);

}  // namespace probing::cli
