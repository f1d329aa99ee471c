// What a thread is doing, as /proc has it. One look, no caching.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/scoped_fd.h"

namespace probing::process {

struct ThreadStatus {
  pid_t tid = 0;
  std::string name;          // comm: at most 15 bytes
  char state = '?';          // R S D T t Z X I
  std::string syscall;       // "futex", "read", or "257" for rarer ones; "" when it runs or may not be seen
  std::string wait_channel;  // the kernel function it sleeps in; "" when unknown
};

// Reads the status of many threads of one process: its folder is opened once.
class ThreadStatusReader {
 public:
  enum class Details : std::uint8_t {
    kAll,
    kNoWaitChannel,  // saves a file per thread, and the kernel a walk through its stack
  };

  explicit ThreadStatusReader(pid_t pid, Details details = Details::kAll,
                              const std::string& proc_root = "/proc");

  // kNotFound when the thread is gone.
  Result<ThreadStatus> Read(pid_t tid) const;

 private:
  pid_t pid_;
  Details details_;
  ScopedFd folder_;
};

// Of one thread. kNotFound when it is gone.
Result<ThreadStatus> ReadThreadStatus(pid_t pid, pid_t tid, const std::string& proc_root = "/proc");

// "running", "sleeping", "uninterruptible", "stopped", "traced", "zombie" or "idle"; "unknown" for the rest.
// The one vocabulary of tables, JSON and text.
std::string_view StateWord(char state);

}  // namespace probing::process
