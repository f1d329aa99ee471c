// ProcessSampler: samples of all Python threads of one process, one at a time; with native frames, of
// all its threads.
//
// Reads from outside and stops nothing, unless native frames are asked for (MixedSampler). Has no
// thread, no timer and no memory of its own besides what makes the next sample cheaper. Not
// thread-safe.
//
// A thread that has slept for a while is looked at less often, and a look at it stands for the
// time since the last one: that costs precision in time, but makes no share wrong. Who holds the
// GIL is always looked at.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <unordered_map>

#include "cpython/interpreter.h"
#include "flame/profile.h"
#include "observe/stacks/mixed_sampler.h"
#include "observe/stacks/thread_clock.h"

namespace probing::observe {

// A moment to take a sample at. When earlier ones were missed it stands for them, too.
struct Tick {
  std::int64_t start_ns = 0;
  std::uint32_t count = 1;
};

struct SamplerOptions {
  // Where symbols are kept; null: no native frames.
  std::shared_ptr<unwind::SymbolStore> native_symbols;
};

class ProcessSampler {
 public:
  // kNotFound, kPermission: as the process says. kFailed: there is no Python in it (yet); with native
  // frames none is needed.
  static Result<ProcessSampler> Attach(pid_t pid, const SamplerOptions& options);

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
    bool has_stack = false;             // the profile has a stack of it that was right when it was read
    bool seen = false;                  // in the current sample
    bool due = false;                   // looked at in the current sample
    int quiet_looks = 0;                // in a row that found it asleep
    std::int64_t covered_until_ns = 0;  // what its samples stand for so far
  };

  ProcessSampler(pid_t pid, std::string name, std::optional<cpython::Interpreter> interpreter,
                 std::optional<MixedSampler> mixed);

  Result<std::vector<cpython::Thread>> ReadPython(bool check_all,
                                                  std::function<bool(const cpython::Thread&)> skip);
  Result<void> SampleMixed(bool check_all, const Tick& tick, flame::Profile& profile);
  void ReadMixed(cpython::Thread thread, bool is_python, const Tick& tick, flame::Profile& profile);
  bool IsDue(const Watched& watched, bool has_gil) const;
  bool MayRepeat(const cpython::Thread& thread);
  std::int64_t StartOfSample(const Watched& watched, bool has_gil, const Tick& tick,
                             flame::Profile& profile) const;
  void Store(const cpython::Thread& thread, const std::vector<flame::Frame>& frames, const Tick& tick,
             flame::Profile& profile);
  void ForgetUnseen(flame::Profile& profile);

  pid_t pid_;
  std::string name_;
  std::optional<cpython::Interpreter> interpreter_;
  std::optional<MixedSampler> mixed_;
  std::unordered_map<pid_t, Watched> threads_;
  std::int64_t next_check_ns_ = 0;  // whether threads have ended
  std::int64_t now_ns_ = 0;         // end of the current tick
  std::int64_t period_ns_ = 0;      // of the profile
};

}  // namespace probing::observe
