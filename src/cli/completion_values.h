// What can stand in a place of the command line, looked up when somebody presses Tab.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::cli {

inline constexpr std::string_view kCompletionKinds = "targets|settings|tables";

// One on each line, with a tab and what it is behind it. Quick, and quiet about what cannot be found out.
Result<std::string> CompletionValues(std::string_view kind);

}  // namespace probing::cli
