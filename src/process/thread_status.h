// What a thread is doing, as /proc has it. One look, no caching.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace probing::process {

struct ThreadStatus {
  pid_t tid = 0;
  std::string name;          // comm: at most 15 bytes
  char state = '?';          // R S D T t Z X I
  std::string syscall;       // "futex", "read", or "257" for rarer ones; "" when it runs or may not be seen
  std::string wait_channel;  // the kernel function it sleeps in; "" when unknown
};

// kNotFound when the thread is gone.
Result<ThreadStatus> ReadThreadStatus(pid_t pid, pid_t tid, const std::string& proc_root = "/proc");

// "running", "sleeping", "waiting for the disk"…
const char* StateName(char state);

}  // namespace probing::process
