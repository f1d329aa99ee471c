#include "process/namesakes.h"

#include "process/status.h"

namespace probing::process {

std::vector<pid_t> NamesakesElsewhere(pid_t own_pid, const std::string& proc_root) {
  std::vector<pid_t> found = ListProcesses(proc_root);
  std::erase_if(found, [&](pid_t pid) {
    const Result<Status> status = ReadStatus(pid, proc_root);
    return !status.ok() || status->ns_pids.size() < 2 || status->own_pid() != own_pid;
  });
  return found;
}

}  // namespace probing::process
