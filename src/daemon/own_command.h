// `probing`, run by probingd for somebody on another machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace probing::daemon {

struct CommandOutcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// The program that lies beside this one, to its end or until the time is up; then it is killed. Blocks: for
// a thread that may.
Result<CommandOutcome> RunOwnCommand(const std::vector<std::string>& arguments,
                                     std::chrono::milliseconds timeout);

}  // namespace probing::daemon
