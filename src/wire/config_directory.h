// Where a user keeps things about Probing: $XDG_CONFIG_HOME/probing or ~/.config/probing.
#pragma once

#include <string>

#include "base/result.h"

namespace probing::wire {

// "" when there is no home. It need not exist.
std::string ConfigDirectory();

// Makes it when it is missing, for its user alone.
Result<std::string> PrepareConfigDirectory();

}  // namespace probing::wire
