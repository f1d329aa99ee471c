// ProcConnector: the kernel's news of processes that ended (netlink, CONFIG_PROC_EVENTS).
//
// For kernels that do not keep the exit status for us. A filter in the kernel lets only the end of
// whole processes pass, so a busy host costs little; when too many end at once some are lost.
#pragma once

#include <sys/types.h>

#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::observe {

// Thread-safe.
class ProcConnector {
 public:
  // kPermission where it is for root only (before Linux 6.6).
  static Result<ProcConnector> Open();
  ProcConnector(ProcConnector&& other) noexcept : socket_(std::move(other.socket_)) {}

  // The status as wait(2) has it. Remembers the last 4096 processes.
  std::optional<int> ExitStatusOf(pid_t pid);

 private:
  explicit ProcConnector(ScopedFd socket) : socket_(std::move(socket)) {}
  void ReadNews();

  ScopedFd socket_;
  std::mutex mutex_;
  std::map<pid_t, int> statuses_;
  std::deque<pid_t> order_;
};

}  // namespace probing::observe
