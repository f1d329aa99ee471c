// From words to a command: the only file that includes CLI11 is parse.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace probing::cli {

struct Parsed {
  const Command* command = nullptr;
  Invocation invocation;
  std::optional<std::string> help;  // what to print instead of running anything
};

// `words` without the program's name. Names a target in any of the places a user may put it:
// `-t 1234 status`, `status -t 1234`, `1234 status`, `status 1234`. Errors are kUsage, or
// kNotFound when the target does not exist.
Result<Parsed> ParseCommandLine(std::vector<std::string> words);

// The form of the older program `probe`: [--dll PATH | --dump | --pause] PID. Other words are
// given back as they are, since `probe` is `probing` by another name.
Result<std::vector<std::string>> TranslateProbe(const std::vector<std::string>& words);

}  // namespace probing::cli
