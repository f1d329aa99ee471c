// Starts a worker of probingd's: this very program with another argument, and a socket to talk to it
// as its descriptor 3.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::query {

struct Spawned {
  pid_t pid = -1;
  ScopedFd socket;
};
Result<Spawned> SpawnWorker(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace probing::query
