// ProcessSampler: samples of all Python threads of one process, one at a time.
//
// Reads from outside and stops nothing. Has no thread, no timer and no memory of its own besides
// what makes the next sample cheaper. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <unordered_map>

#include "cpython/interpreter.h"
#include "flame/profile.h"
#include "observe/stacks/thread_clock.h"

namespace probing::observe {

// A moment to take a sample at. When earlier ones were missed it stands for them, too.
struct Tick {
  std::int64_t start_ns = 0;
  std::uint32_t count = 1;
};

class ProcessSampler {
 public:
  // kNotFound, kPermission: as the process says. kFailed: there is no Python in it (yet).
  static Result<ProcessSampler> Attach(pid_t pid);

  // Adds a sample of every thread. kNotFound: the process has ended. kFailed: it could not be read
  // this time (it is starting, ending or replacing its program).
  Result<void> Sample(const Tick& tick, flame::Profile& profile);

  // REQUIRES: `profile` is the one that was given to Sample().
  void Leave(flame::Profile& profile);

  pid_t pid() const { return pid_; }

 private:
  struct Watched {
    std::optional<ThreadClock> clock;
    std::optional<flame::ThreadId> id;  // in the profile
    bool on_cpu = false;
    bool has_gil = false;
    bool has_stack = false;  // the profile has a stack of it that was right when it was read
    bool seen = false;       // in the current sample
  };

  ProcessSampler(pid_t pid, std::string name, cpython::Interpreter interpreter);

  bool MayRepeat(pid_t tid);
  void Store(cpython::Thread& thread, const Tick& tick, flame::Profile& profile);
  void ForgetUnseen(flame::Profile& profile);

  pid_t pid_;
  std::string name_;
  cpython::Interpreter interpreter_;
  std::unordered_map<pid_t, Watched> threads_;
};

}  // namespace probing::observe
