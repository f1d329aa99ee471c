// The control groups of a process, version 1 or 2 or both: its limits and what they did to it.
//
// Groups are found through /proc/PID/cgroup and where this process has cgroups mounted. In a container
// with a private view the paths of others cannot be found: then there are no numbers.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "observe/host/kept_file.h"
#include "observe/host/proc_text.h"

namespace probing::observe {

struct CgroupFolders {
  // Each with its ancestors, the innermost first. Empty: not found.
  std::vector<std::string> memory;
  std::vector<std::string> cpu;
  bool memory_is_v2 = false;
  bool cpu_is_v2 = false;
};

// `proc_root`/self/mountinfo says where they are mounted; the tests put paths of their own there.
CgroupFolders FindCgroups(pid_t pid, const std::string& proc_root = "/proc");

struct MemoryLimit {
  Number limit_bytes;  // the tightest of the group and its ancestors; nullopt without one
  Number used_bytes;   // in the group that has that limit; without one, in the innermost
};
MemoryLimit ReadMemoryLimit(const CgroupFolders& folders);

// Times the kernel killed a process of the group for want of memory.
Number ReadOomKills(const CgroupFolders& folders);

// How long the group was kept from running by its CPU limit, in all, in ns.
class ThrottledTime {
 public:
  ThrottledTime(const CgroupFolders& folders, FileBudget* budget);
  Number Read(std::string& scratch);

 private:
  std::optional<KeptFile> stat_;
  bool is_v2_;
};

}  // namespace probing::observe
