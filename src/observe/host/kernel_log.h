// KernelLog: what the kernel has logged since a moment; here, whom it killed for want of memory.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/scoped_fd.h"

namespace probing::observe {

class KernelLog {
 public:
  // From now on. nullopt when we may not read it (/dev/kmsg is often for root only).
  static std::optional<KernelLog> FromNow(const std::string& path = "/dev/kmsg");

  // The line that says the kernel killed `pid`, without the rest of the record. Reads on from where
  // it stopped the last time.
  std::optional<std::string> FindOomKill(pid_t pid);

 private:
  explicit KernelLog(ScopedFd fd) : fd_(std::move(fd)) {}
  ScopedFd fd_;
};

// The message of a record "6,1234,567890,-;Memory cgroup out of memory: Killed process 17 (python) …"
// when it is about `pid`. Control characters and what follows the first line are left out.
std::optional<std::string> OomKillIn(std::string_view record, pid_t pid);

}  // namespace probing::observe
