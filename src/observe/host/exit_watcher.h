// ExitWatcher: how a process that is not our child ended.
//
// wait(2) is for parents, so others have to be quick or lucky. In this order:
//   1. The kernel keeps the exit status for holders of a pidfd (Linux ≥ 6.15): always known.
//   2. While nobody has waited for the process, /proc/PID/stat has it, for its owner.
//   3. The kernel's process events (proc_connector.h): by root, or by anybody since Linux 6.6.
// When none of them answers the reason is kUnknown; nothing is guessed. A SIGKILL is kOom when the
// kernel's log names the process, or the counter of its control group says that the kernel killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "observe/host/cgroup.h"
#include "observe/host/kernel_log.h"

namespace probing::observe {

class ProcConnector;

struct HowItEnded {
  enum class Reason : std::uint8_t { kExit, kSignal, kOom, kUnknown };
  Reason reason = Reason::kUnknown;
  std::optional<int> exit_code;
  std::optional<int> signal;
  bool core_dumped = false;
  std::string message;          // what the kernel said, or why nobody knows
  std::int64_t noticed_ns = 0;  // wall time
};

const char* ReasonName(HowItEnded::Reason reason);  // "exit", "signal", "oom", "unknown"
std::string SignalName(int signal);                 // "SIGSEGV", "SIGRTMIN+3", "signal 99"

struct ExitWatcherOptions {
  // Outlives the watcher; nullptr: way 3 is not tried. Needed only where KeepsExitStatus() is false.
  ProcConnector* connector = nullptr;
  // The tests turn ways off to see the others.
  bool use_pidfd = true;
  bool use_zombie = true;
  bool use_kernel_log = true;
};

class ExitWatcher {
 public:
  // kNotFound when there is no such process. One that has ended but was not waited for is fine.
  static Result<ExitWatcher> Watch(pid_t pid, const ExitWatcherOptions& options = {});

  // Readable when the process has ended: for poll(2). −1 on kernels before 5.3: then ask Check().
  int fd() const { return pidfd_.get(); }

  // nullopt while it runs. Never blocks. Ask soon after fd() became readable: way 2 does not wait.
  std::optional<HowItEnded> Check();

 private:
  ExitWatcher(pid_t pid, ScopedFd pidfd, ScopedFd folder, const ExitWatcherOptions& options);

  bool HasEnded();
  std::optional<int> ReadZombie();
  std::optional<int> FindStatus();
  void Explain(HowItEnded& how);

  pid_t pid_;
  ScopedFd pidfd_;   // not valid on old kernels
  ScopedFd folder_;  // /proc/PID: means this process even when the number is used again
  ExitWatcherOptions options_;
  CgroupFolders cgroups_;
  Number oom_kills_;  // when it was last seen running
  std::optional<KernelLog> kernel_log_;
};

// Whether this kernel has way 1.
bool KeepsExitStatus();

}  // namespace probing::observe
