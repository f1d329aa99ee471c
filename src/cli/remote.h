// Targets elsewhere: `-t host:port`.
#pragma once

#include "cli/command.h"

namespace probing::cli {

// From now on the daemon of that address is asked. Finds out which process is meant when the target
// does not say: the only one that is served there.
// REQUIRES: invocation.endpoint.
Result<void> ChooseRemote(const Command& command, Invocation& invocation);

}  // namespace probing::cli
