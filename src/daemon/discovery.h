// Finds the sockets of probes on this host.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace probing::daemon {

// Paths of all sockets of this user's probes, in our own root and in that of every other mount namespace we
// may look into. Dead ones may be among them. Root's are root's only, too: a directory of another user holds
// whatever that user puts there.
std::vector<std::string> FindProbeSockets();

// Those of this user in our own root only: some microseconds, where the above takes milliseconds.
std::vector<std::string> FindOwnProbeSockets();

// The process of this user that listens on such a path, as seen from here. Never waits. A socket of ours
// whose process is gone is removed.
Result<pid_t> ListenerOf(const std::string& path);

}  // namespace probing::daemon
