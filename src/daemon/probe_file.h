// What a probe is asked to record and puts into a file without a name: a profile, a snapshot of a GPU's
// memory.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <string>

#include "base/scoped_fd.h"
#include "daemon/api.h"
#include "wire/message.h"

namespace probing::daemon {

struct ProbeFile {
  server::Json about;  // an object; untrusted
  ScopedFd file;       // a regular file of the target's, read-only; untrusted
  // Where programs of this machine can open it, as long as `file` is open.
  std::string Path() const;
};

// Asks the probe for `op`, opens the file whose descriptor ("fd") is in the answer, and has the probe close
// it. `what` names it in errors: "profile". The message says how long it may take (timeout_ms).
boost::asio::awaitable<Result<ProbeFile>> AskForFile(Daemon& daemon, pid_t pid, std::string op,
                                                     wire::Message request, std::string what);

}  // namespace probing::daemon
