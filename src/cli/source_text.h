// Text that a command is to run, as the user gave it: an argument, --file FILE, or - for stdin.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/command.h"

namespace probing::cli {

// `what` is how the command calls it ("code", "SQL"); `example` is shown when none was given.
Result<std::string> SourceText(const Invocation& invocation, std::string_view command, std::string_view what,
                               std::string_view example);

}  // namespace probing::cli
