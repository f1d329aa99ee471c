// TargetWatch: one process, its threads and its children between two looks.
//
// Everything is read from /proc with what the owner of the process may read. Rates need two looks: the
// first has none. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "observe/host/cgroup.h"
#include "observe/host/network.h"
#include "observe/host/thread_watch.h"

namespace probing::observe {

struct TargetLook {
  // Percent of one core.
  std::optional<double> cpu_percent, user_percent, system_percent, children_percent;
  Number voluntary_switches, involuntary_switches;  // of all threads; nullopt when some are not known
  std::optional<double> throttled_ms;

  // Bytes.
  Number rss, vms, shared, swap, children_rss;
  MemoryLimit cgroup;
  Number major_faults;

  bool has_io = false;  // false: we may not look
  Number read_bytes, write_bytes, read_calls, write_calls;

  std::vector<InterfaceLook> interfaces;
  std::vector<const ThreadLook*> threads;  // valid until the next look
};

class TargetWatch {
 public:
  // kNotFound when there is no such process. The budget outlives this.
  static Result<std::unique_ptr<TargetWatch>> Open(pid_t pid, FileBudget* budget,
                                                   const std::string& proc_root = "/proc");

  // kNotFound: it has ended.
  Result<TargetLook> Look(std::int64_t interval_ns);
  pid_t pid() const { return pid_; }
  const std::vector<pid_t>& children() const { return child_pids_; }  // as of the last look

 private:
  struct Child {
    ScopedFd folder;
    KeptFile stat;
    Counter cpu_ns;
  };

  TargetWatch(pid_t pid, ScopedFd folder, ScopedFd tasks, FileBudget* budget, const std::string& proc_root);

  bool LookAtCpu(TargetLook& look, std::int64_t interval_ns);
  void LookAtMemory(TargetLook& look);
  void LookAtIo(TargetLook& look);
  void LookAtThreads(TargetLook& look, std::int64_t interval_ns);
  void ReadDetails(std::vector<ThreadWatch*>& wanting, std::int64_t interval_ns);
  void LookAtChildren(TargetLook& look, std::int64_t interval_ns);
  void FindChildren();

  const pid_t pid_;
  const std::string proc_root_;
  FileBudget* budget_;
  ScopedFd folder_, tasks_;  // before the files, which borrow them
  KeptFile stat_, statm_, status_, io_;
  NetworkWatch network_;
  CgroupFolders cgroups_;
  ThrottledTime throttled_;
  MemoryLimit memory_limit_;
  Counter user_ns_, system_ns_, throttled_ns_, major_faults_;
  Counter read_bytes_, write_bytes_, read_calls_, write_calls_;
  std::map<pid_t, ThreadWatch> threads_;
  std::map<pid_t, Child> children_;
  std::vector<pid_t> child_pids_;
  std::uint64_t looks_ = 0;
  std::string scratch_;
};

}  // namespace probing::observe
