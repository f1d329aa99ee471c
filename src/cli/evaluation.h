// What came of code that was evaluated in a target, for a person.
#pragma once

#include "cli/daemon_client.h"

namespace probing::cli {

// How long a command waits for the GIL before it says who holds it.
inline constexpr double kGilSeconds = 5;

// Prints output and value to stdout, everything else to stderr: the traceback, why there is no answer,
// who holds the GIL. Returns the exit code.
int PrintEvaluation(const Json& answer);

}  // namespace probing::cli
