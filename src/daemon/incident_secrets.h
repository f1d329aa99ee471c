// Texts that must not leave this machine in a file that people send around.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace probing::daemon {

// These tokens, and of these processes' environment, as they were started, the values of variables whose
// names say what they are: PROBING_TOKEN, HF_TOKEN, AWS_SECRET_ACCESS_KEY, … The longest first.
std::vector<std::string> FindSecrets(const std::vector<std::string>& tokens, const std::set<pid_t>& pids);

}  // namespace probing::daemon
