// One command on many hosts at once, by ssh.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace probing::cli {

struct HostOutcome {
  std::string host;
  bool started = true;      // otherwise `err` says why ssh could not be
  std::optional<int> code;  // nothing: it had not ended in time, and ssh was ended
  std::string out;
  std::string err;

  bool ok() const { return code == 0; }
  // One line; "" when all went well.
  std::string Problem() const;
};

// Runs `words` on each host, all at the same time and until one deadline. Nobody is asked for a password:
// ssh has to get in by a key. `ssh` is the command to use, with its options: "ssh -p 2222".
std::vector<HostOutcome> OnEachHost(const std::vector<std::string>& hosts, const std::string& ssh,
                                    const std::vector<std::string>& words, const Deadline& deadline);

// The hosts of a file as MPI takes it: one on each line, `slots=8` and comments (#) are passed over.
Result<std::vector<std::string>> ReadHostFile(const std::string& path);

}  // namespace probing::cli
