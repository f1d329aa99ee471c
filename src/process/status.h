// What /proc says about a process: identity, state, rights. One snapshot, no caching.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace probing::process {

struct Status {
  pid_t pid = 0;
  std::string name;  // comm: at most 15 bytes
  char state = '?';  // R S D T t Z X I
  pid_t parent = 0;
  pid_t tracer = 0;  // 0: nobody traces it
  uid_t real_uid = 0;
  uid_t effective_uid = 0;
  int threads = 0;
  int seccomp_mode = 0;  // 0 none, 1 strict, 2 filter
  int seccomp_filters = 0;
  bool exiting = false;  // on its way out, its memory may be gone already
  bool kernel_thread = false;
  bool shadow_stack = false;      // a user shadow stack (Intel CET)
  std::vector<pid_t> ns_pids;     // pid in each namespace, outermost first
  std::uint64_t start_ticks = 0;  // since boot; with the pid it names a process for ever

  // The pid this process has for itself.
  pid_t own_pid() const { return ns_pids.empty() ? pid : ns_pids.back(); }

  // It has ended; only its parent has not noticed yet.
  bool ended() const { return state == 'Z' || state == 'X'; }
};

// kNotFound when there is no such process.
Result<Status> ReadStatus(pid_t pid, const std::string& proc_root = "/proc");

bool IsAlive(pid_t pid);

// What there is to say when a process ended while it was being worked on.
Error EndedMeanwhile(pid_t pid);

// The command line with spaces between the words; the name in brackets when there is none.
std::string CommandLine(pid_t pid, const std::string& proc_root = "/proc");

// For labels: the interpreter and the script without their folders ("python train.py --rank 3").
std::string ShortCommandLine(pid_t pid, const std::string& proc_root = "/proc");

// The value of one variable in the environment the process was started with.
Result<std::string> StartupEnvironment(pid_t pid, const std::string& variable,
                                       const std::string& proc_root = "/proc");

// Pids, ascending. Processes come and go: any of them may be gone already. Empty when /proc cannot be read.
std::vector<pid_t> ListProcesses(const std::string& proc_root = "/proc");

// Thread ids, ascending. Threads come and go: any of them may be gone already.
Result<std::vector<pid_t>> ListThreads(pid_t pid, const std::string& proc_root = "/proc");

}  // namespace probing::process
