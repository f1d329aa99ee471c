// ProcessSampler: samples of all Python threads of one process, one at a time; with native frames, of
// all its threads.
//
// Reads from outside. A thread is held (some tens of microseconds) only where its stack changes faster than
// it can be read, and where native frames are asked for (MixedSampler). Has no thread, no timer and no memory
// of its own besides what makes the next sample cheaper. Not thread-safe.
//
// **Shares are unbiased.** A sample must not depend on what the program does at that instant, so one that
// could not be read is neither dropped nor put off to a quieter moment: the thread is held and read. Even
// "try first, hold when that fails" would favour functions that stand still for long. So after one torn stack
// a thread is always held when sampled on a CPU, kHeldSamples times, before a reading without a stop is tried
// again: at most one sample in kHeldSamples can prefer anything.
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
  // Threads that run an event loop are shown by the task that they run (task_frames.h); with kAll tasks that
  // wait are shown, too. Reads all tasks for each sample in which a thread has run.
  enum class Tasks : std::uint8_t { kNone, kRunning, kAll };
  Tasks tasks = Tasks::kNone;
  std::optional<std::int64_t> rank{};  // of its job: the profile's threads say so
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
  // For how long one thread was held for the last sample, at most.
  std::int64_t held_ns() const { return held_ns_; }

 private:
  struct Watched {
    std::optional<ThreadClock> clock;
    std::optional<flame::ThreadId> id;  // in the profile
    bool on_cpu = false;
    bool has_stack = false;             // the profile has a stack of it that was right when it was read
    bool seen = false;                  // in the current sample
    bool due = false;                   // looked at in the current sample
    std::int64_t asked_at_ns = 0;       // the sample of the next one
    bool may_repeat = false;            // MayRepeat()
    int quiet_looks = 0;                // in a row that found it asleep
    int held_samples_left = 0;          // before it is read without a stop again
    std::int64_t covered_until_ns = 0;  // what its samples stand for so far
  };

  struct ShownTask {
    std::optional<flame::ThreadId> thread;  // in the profile
    bool seen = false;                      // in the current sample
  };

  ProcessSampler(pid_t pid, std::string name, const SamplerOptions& options,
                 std::optional<cpython::Interpreter> interpreter, std::optional<MixedSampler> mixed);

  Result<std::vector<cpython::Thread>> ReadPython(bool check_all,
                                                  std::function<bool(const cpython::Thread&)> skip);
  void ReadSteadily(const cpython::Thread& thread, const cpython::ReadOptions::ReadOnce& read);
  Result<void> SampleMixed(bool check_all, const Tick& tick, flame::Profile& profile);
  void ReadMixed(cpython::Thread thread, bool is_python, const Tick& tick, flame::Profile& profile);
  std::vector<flame::Frame> ByTask(const cpython::Thread& thread, std::vector<flame::Frame> frames) const;
  void StoreWaitingTasks(const Tick& tick, flame::Profile& profile);
  bool IsDue(const Watched& watched, bool has_gil) const;
  bool MayRepeat(const cpython::Thread& thread);
  bool MayRepeatNow(pid_t tid, bool has_gil, Watched& watched);
  std::int64_t StartOfSample(const Watched& watched, bool has_gil, const Tick& tick,
                             flame::Profile& profile) const;
  void Store(const cpython::Thread& thread, const std::vector<flame::Frame>& frames, const Tick& tick,
             flame::Profile& profile);
  void ForgetUnseen(flame::Profile& profile);

  pid_t pid_;
  std::string name_;
  SamplerOptions::Tasks task_mode_;
  std::optional<std::int64_t> rank_;
  std::optional<cpython::Interpreter> interpreter_;
  std::optional<MixedSampler> mixed_;
  std::vector<cpython::Task> tasks_;                          // of the current sample
  std::unordered_map<std::uint64_t, ShownTask> shown_tasks_;  // by Task::id
  std::unordered_map<pid_t, Watched> threads_;
  std::int64_t next_check_ns_ = 0;  // whether threads have ended
  std::int64_t now_ns_ = 0;         // end of the current tick
  std::int64_t period_ns_ = 0;      // of the profile
  std::int64_t held_ns_ = 0;        // in the current sample
};

}  // namespace probing::observe
