// Recorder: fills a profile with samples of a process, and of its children if asked.
//
//   ASSIGN_OR_RETURN(auto recorder, Recorder::Start(pid, {.hz = 100}));
//   while (!stop && recorder.Sample()) recorder.Wait();
//
// Several processes (the ranks of a job) are sampled at the same moments, one right after the other.
// Recorders on several hosts do so, too, when they have the same start and the same seed: the moments follow
// from these.
//
// Time is cut into periods and each has one sample, at a moment drawn at random: a program that works in step
// with the sampling rate would otherwise show one part of its loop only. A late sample does not delay the
// next one; periods that were missed are counted, and the sample after them stands for them. Not thread-safe:
// whoever reads the profile from another thread locks around Sample().
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flame/profile.h"
#include "observe/stacks/process_sampler.h"

namespace probing::observe {

inline constexpr double kMaxHz = 1000;
// Of one process, for those who ask for it. Where threads have to be held for a sample, the rate is lower by
// itself: the target loses kMostHeld of its time at most, and each sample stands for the periods left out.
inline constexpr double kMaxHzOfOne = 10'000;
inline constexpr double kMostHeld = 0.05;

struct RecorderOptions {
  double hz = 100;  // at most kMaxHz, or kMaxHzOfOne without children
  bool follow_children = false;
  SamplerOptions sampler;
  flame::Profile::Limits limits;
  std::string reason;         // why, when an event asks for it: all samples carry it as their mark
  std::int64_t start_ns = 0;  // monotonic; 0: at once
  std::uint64_t seed = 0;     // of the moments; 0: one of its own
};

// A process to sample, and which rank of a job it is.
struct Root {
  pid_t pid = 0;
  std::optional<std::int64_t> rank{};
};

// How a part that notices something asks for a closer look at a process, now: "the step takes three
// times as long as usual". daemon::Sampling::Trigger() acts on it.
struct Trigger {
  double hz = 200;  // at most kMaxHz
  std::int64_t duration_ms = 1000;
  std::string reason;
};

class Recorder {
 public:
  // Fails when `pid` itself cannot be sampled; children that cannot are left out. With follow_children `pid`
  // needs no Python (a shell, the bootloader of a packed program) if within three seconds a child of it has.
  static Result<Recorder> Start(pid_t pid, const RecorderOptions& options);

  // The same for several, until the last one ends. Fails when none can be sampled; see gone().
  // REQUIRES: at least one.
  static Result<Recorder> StartAll(const std::vector<Root>& roots, const RecorderOptions& options);

  // Samples every process if a tick is due. False: there is nothing left to sample (see ended()).
  bool Sample();

  // Sleeps until the next tick, but not longer than a tenth of a second and not through signals.
  void Wait() const;

  const flame::Profile& profile() const { return profile_; }
  std::int64_t started_ns() const { return started_ns_; }         // monotonic
  std::uint64_t samples_taken() const { return samples_taken_; }  // of all threads at once
  std::uint64_t periods() const { return periods_; }              // that those stand for
  // As sure as shares are when samples stand for more than one period, each: so many that stand for one.
  std::uint64_t equal_looks() const;
  std::size_t processes() const { return samplers_.size(); }
  // There is something to sample, or may be again: a parent whose children are followed still runs.
  bool is_going() const;
  // Why the last process could not be sampled any more.
  const std::optional<Error>& ended() const { return ended_; }
  // Of those it was started with: not sampled any more, or never, and why.
  struct Gone {
    pid_t pid = 0;
    std::int64_t at_ns = 0;  // 0: never sampled
    Error error;
  };
  const std::vector<Gone>& gone() const { return gone_; }

 private:
  struct Running {
    ProcessSampler sampler;
    std::int64_t failing_since_ns = 0;  // 0: the last sample was fine
  };

  Recorder(std::vector<Root> roots, const RecorderOptions& options);

  Result<void> Attach(const Root& root);
  Result<void> AwaitChild(const Error& why);
  void SampleAll(const Tick& tick);
  void Begin();
  void DrawTick();
  void SpareTarget();
  // Starts to sample children that came since the last look.
  void Follow(std::int64_t now_ns);

  std::vector<Root> roots_;
  RecorderOptions options_;
  flame::Profile profile_;
  std::int64_t started_ns_ = 0;
  std::int64_t grid_ns_ = 0;          // where periods are counted from
  std::int64_t period_start_ns_ = 0;  // of the next sample
  std::int64_t next_tick_ns_ = 0;     // within that period
  std::uint64_t seed_;
  std::int64_t next_look_ns_ = 0;  // for children
  std::uint64_t samples_taken_ = 0;
  std::int64_t spared_ = 0;  // periods before the next sample that it leaves out on purpose
  std::uint64_t periods_ = 0, squared_periods_ = 0;
  std::map<pid_t, Running> samplers_;
  std::map<pid_t, std::int64_t> strangers_;  // children without Python: first seen when
  std::optional<Error> ended_;
  std::vector<Gone> gone_;
};

}  // namespace probing::observe
