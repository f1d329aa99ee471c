#include "observe/stacks/process_sampler.h"

#include <algorithm>

#include "base/clock.h"
#include "observe/stacks/frame_list.h"
#include "observe/stacks/task_frames.h"
#include "process/held_thread.h"
#include "process/status.h"
#include "process/thread_status.h"
#include "process/urgent.h"
#include "unwind/join_interpreters.h"

namespace probing::observe {
namespace {

constexpr std::size_t kMaxDepth = 512;     // innermost frames: a picture of more helps nobody
constexpr std::size_t kMaxNameBytes = 80;  // of a command line
// A hold takes 30 to 60 us of the thread's time: 0.5 % at 100 samples a second.
constexpr int kHeldSamples = 100;
// A thread may be stopped between two states of the interpreter; it goes on a little and is held again.
constexpr int kHolds = 5;
constexpr std::int64_t kBetweenHoldsUs = 30;
constexpr std::int64_t kStopNs = 20'000;  // to stop and to go on, of the thread's time
constexpr std::int64_t kHoldMs =
    100;  // for the stop to come: a thread that waits for a CPU must run for that

constexpr int kQuietLooks = 32;                // after so many a thread is looked at less often...
constexpr std::int64_t kQuietNs = 50'000'000;  // ...but at least this often
constexpr std::int64_t kMaxQuietPeriods = 16;

// A thread has a state in each interpreter that it entered, and is one thread all the same.
std::vector<cpython::Thread> OnePerThread(std::vector<cpython::Thread> states) {
  std::vector<cpython::Thread> threads;
  for (std::size_t i = 0; i < states.size();) {
    std::size_t end = i + 1;
    while (end < states.size() && states[end].tid == states[i].tid && states[i].tid != 0) ++end;
    std::vector<cpython::Thread> same;
    bool skipped = false;
    bool has_gil = false;
    for (std::size_t k = i; k < end; ++k) {
      skipped |= states[k].skipped;
      has_gil |= states[k].has_gil;
      // Where a state has no frames the thread is not at the moment; one of them stands for the thread.
      const bool is_inside = !states[k].frames.empty() || states[k].torn;
      if (is_inside || (same.empty() && k + 1 == end)) same.push_back(std::move(states[k]));
    }
    threads.push_back(same.size() == 1 ? std::move(same.front()) : unwind::JoinInterpreters(std::move(same)));
    threads.back().has_gil = has_gil;
    threads.back().skipped = skipped;
    i = end;
  }
  return threads;
}

}  // namespace

ProcessSampler::ProcessSampler(pid_t pid, std::string name, const SamplerOptions& options,
                               std::optional<cpython::Interpreter> interpreter,
                               std::optional<MixedSampler> mixed)
    : pid_(pid),
      name_(std::move(name)),
      task_mode_(options.tasks),
      rank_(options.rank),
      interpreter_(std::move(interpreter)),
      mixed_(std::move(mixed)) {}

Result<ProcessSampler> ProcessSampler::Attach(pid_t pid, const SamplerOptions& options) {
  const bool native = options.native_symbols != nullptr;
  std::optional<MixedSampler> mixed;
  auto interpreter = cpython::Interpreter::Attach(pid);
  if (!interpreter.ok() && (!native || interpreter.error().code != Code::kFailed))
    return std::move(interpreter.error());
  if (native) {
    ASSIGN_OR_RETURN(auto attached, MixedSampler::Attach(pid, options.native_symbols));
    mixed = std::move(attached);
  }
  return ProcessSampler(pid, process::ShortCommandLine(pid).substr(0, kMaxNameBytes), options,
                        interpreter.ok() ? std::optional(std::move(*interpreter)) : std::nullopt,
                        std::move(mixed));
}

Result<void> ProcessSampler::Sample(const Tick& tick, flame::Profile& profile) {
  period_ns_ = profile.period_ns();
  held_ns_ = 0;
  now_ns_ = tick.start_ns + tick.count * period_ns_;
  // Threads that come are noticed at once, those that end now and then, or when the kernel says so.
  const bool check_all = now_ns_ >= next_check_ns_;
  if (check_all) next_check_ns_ = now_ns_ + kQuietNs;
  if (mixed_) {
    RETURN_IF_ERROR(SampleMixed(check_all, tick, profile));
  } else {
    ASSIGN_OR_RETURN(auto threads, ReadPython(check_all, [this](const cpython::Thread& thread) {
                       return MayRepeat(thread);
                     }));
    for (cpython::Thread& thread : OnePerThread(std::move(threads)))
      Store(thread, ByTask(thread, FramesOf(thread)), tick, profile);
  }
  if (task_mode_ == SamplerOptions::Tasks::kAll) StoreWaitingTasks(tick, profile);
  ForgetUnseen(profile);
  return {};
}

Result<std::vector<cpython::Thread>> ProcessSampler::ReadPython(
    bool check_all, std::function<bool(const cpython::Thread&)> skip) {
  cpython::ReadOptions options;
  options.max_depth = kMaxDepth;
  options.steady = [this](const cpython::Thread& thread, const cpython::ReadOptions::ReadOnce& read) {
    ReadSteadily(thread, read);
  };
  options.changes = check_all ? cpython::Changes::kAll : cpython::Changes::kNew;
  options.tasks = task_mode_ != SamplerOptions::Tasks::kNone;
  options.want_tasks = [this](const std::vector<cpython::Thread>& threads) {
    // No task has gone on since the last sample when no thread has.
    return task_mode_ == SamplerOptions::Tasks::kAll || mixed_ ||
           std::any_of(threads.begin(), threads.end(),
                       [](const cpython::Thread& thread) { return !thread.skipped; });
  };
  options.skip = std::move(skip);
  ASSIGN_OR_RETURN(cpython::Snapshot snapshot, interpreter_->Read(options));
  tasks_ = std::move(snapshot.tasks);
  return std::move(snapshot.threads);
}

void ProcessSampler::ReadSteadily(const cpython::Thread& thread, const cpython::ReadOptions::ReadOnce& read) {
  using cpython::Reading;
  Watched& watched = threads_[thread.tid];
  const bool hold_at_once = watched.held_samples_left > 0 && watched.on_cpu;
  if (hold_at_once) {
    --watched.held_samples_left;
  } else if (read() == Reading::kRight || thread.tid == 0) {
    return;
  } else {
    watched.held_samples_left = kHeldSamples;
  }
  const process::Urgent urgent;
  for (int i = 0; i < kHolds; ++i) {
    if (i > 0) SleepUs(kBetweenHoldsUs);
    const auto held = process::HeldThread::Hold(thread.tid, Deadline::AfterMs(kHoldMs));
    const std::int64_t since_ns = MonotonicNs();
    const Reading reading = read();
    if (held.ok()) held_ns_ = std::max(held_ns_, MonotonicNs() - since_ns + kStopNs);
    // Doubtful and standing still: believed when several moments say so.
    if (reading == Reading::kRight || !held.ok()) return;
  }
}

// Which threads have Python and who has the GIL is read once for all; then each thread by itself, as
// its two stacks must be of the same moment.
Result<void> ProcessSampler::SampleMixed(bool check_all, const Tick& tick, flame::Profile& profile) {
  std::unordered_map<pid_t, cpython::Thread> python;
  if (interpreter_) {
    const auto none = [](const cpython::Thread&) { return true; };
    ASSIGN_OR_RETURN(auto threads, ReadPython(check_all, none));
    for (cpython::Thread& thread : threads) {
      cpython::Thread& known = python[thread.tid];
      // A thread may have a state in each of several interpreters.
      const bool has_gil = known.has_gil || thread.has_gil;
      known = std::move(thread);
      known.has_gil = has_gil;
    }
  }
  const std::vector<pid_t> tids = mixed_->Threads(check_all);
  if (tids.empty()) return Error{Code::kNotFound, "process " + std::to_string(pid_) + " has ended", ""};
  for (const pid_t tid : tids) {
    const auto found = python.find(tid);
    const bool is_python = found != python.end();
    cpython::Thread thread = is_python ? std::move(found->second) : cpython::Thread{.tid = tid};
    ReadMixed(std::move(thread), is_python, tick, profile);
  }
  return {};
}

void ProcessSampler::ReadMixed(cpython::Thread thread, bool is_python, const Tick& tick,
                               flame::Profile& profile) {
  thread.skipped = MayRepeat(thread);
  Watched& watched = threads_[thread.tid];
  if (!watched.id && thread.name.empty()) {
    auto status = process::ReadThreadStatus(pid_, thread.tid);
    if (status.ok()) thread.name = std::move(status->name);
  }
  std::vector<flame::Frame> frames;
  if (!thread.skipped) {
    auto reading = mixed_->Read(thread.tid, is_python ? &*interpreter_ : nullptr);
    if (reading.ok()) held_ns_ = std::max(held_ns_, reading->held_ns);
    if (!reading.ok() && reading.error().code == Code::kNotFound) {
      watched.due = false;
      next_check_ns_ = 0;
    } else if (!reading.ok() || reading->torn) {
      thread.torn = true;
    } else if (!reading->merged) {
      // In which order they belong is not known, and it is not guessed.
      profile.losses().unmerged += tick.count;
      watched.due = false;
    } else {
      frames = std::move(reading->frames);
    }
  }
  Store(thread, ByTask(thread, std::move(frames)), tick, profile);
}

std::vector<flame::Frame> ProcessSampler::ByTask(const cpython::Thread& thread,
                                                 std::vector<flame::Frame> frames) const {
  if (task_mode_ == SamplerOptions::Tasks::kNone || thread.skipped || thread.torn) return frames;
  std::vector<RunningTask> running;
  for (const cpython::Task& task : tasks_) {
    if (task.tid == thread.tid && task.state == cpython::Task::State::kRunning)
      running.push_back({&task, interpreter_->RunningFunction(task)});
  }
  return FramesByTask(std::move(frames), thread.tid, running, tasks_);
}

// Each is a thread of its own in the profile: there is nothing else that they could be in one after the
// other.
void ProcessSampler::StoreWaitingTasks(const Tick& tick, flame::Profile& profile) {
  for (auto& [id, shown] : shown_tasks_) shown.seen = false;
  for (const cpython::Task& task : tasks_) {
    auto& shown = shown_tasks_[task.id];
    shown.seen = true;
    if (task.state == cpython::Task::State::kRunning) continue;
    const std::string name = "task " + (task.name.empty() ? "?" : task.name);
    if (!shown.thread) shown.thread = profile.AddThread({pid_, task.tid, name, name_, rank_});
    profile.AddSample({tick.start_ns, tick.count, *shown.thread, 0, false, false},
                      FramesOfWaiting(task, tasks_));
  }
  std::erase_if(shown_tasks_, [&](const auto& entry) {
    if (!entry.second.seen && entry.second.thread) profile.EndThread(*entry.second.thread);
    return !entry.second.seen;
  });
}

bool ProcessSampler::IsDue(const Watched& watched, bool has_gil) const {
  if (has_gil || !watched.has_stack || watched.quiet_looks < kQuietLooks) return true;
  const std::int64_t periods = std::min(kMaxQuietPeriods, kQuietNs / period_ns_);
  return now_ns_ - watched.covered_until_ns >= periods * period_ns_;
}

// Asked by the reader just before it would read this thread's stack.
bool ProcessSampler::MayRepeat(const cpython::Thread& thread) {
  const pid_t tid = thread.tid;
  Watched& watched = threads_[tid];
  // The second state of a thread: the thread has not run less than for the first.
  if (tid != 0 && watched.asked_at_ns == now_ns_) return watched.may_repeat;
  watched.asked_at_ns = now_ns_;
  return watched.may_repeat = MayRepeatNow(tid, thread.has_gil, watched);
}

bool ProcessSampler::MayRepeatNow(pid_t tid, bool has_gil, Watched& watched) {
  watched.due = IsDue(watched, has_gil);
  if (!watched.due) return true;
  if (!watched.clock && tid != 0) {
    auto clock = ThreadClock::Open(pid_, tid);
    if (clock.ok()) watched.clock = std::move(*clock);
  }
  if (!watched.clock) return false;
  const auto look = watched.clock->LookNow();
  if (!look.ok()) {
    watched.clock.reset();  // ended; its id may belong to another thread next time
    watched.on_cpu = false;
    watched.due = false;
    next_check_ns_ = 0;
    return true;
  }
  watched.on_cpu = look->on_cpu;
  watched.quiet_looks = look->has_run ? 0 : watched.quiet_looks + 1;
  return !look->has_run && watched.has_stack;
}

// A sample stands for the time since the last look at this thread.
std::int64_t ProcessSampler::StartOfSample(const Watched& watched, bool has_gil, const Tick& tick,
                                           flame::Profile& profile) const {
  const std::int64_t gap_ns = tick.start_ns - watched.covered_until_ns;
  const bool has_gap =
      watched.has_stack && watched.covered_until_ns != 0 && gap_ns >= period_ns_ && gap_ns < kQuietNs;
  if (!has_gap) return tick.start_ns;
  if (!has_gil) return watched.covered_until_ns;
  // Holders of the GIL are looked at in every tick, so before this one it did not hold it: it slept.
  const auto ticks = static_cast<std::uint32_t>(gap_ns / period_ns_);
  profile.RepeatSample({watched.covered_until_ns, ticks, *watched.id, 0, false, false});
  return tick.start_ns;
}

void ProcessSampler::Store(const cpython::Thread& thread, const std::vector<flame::Frame>& frames,
                           const Tick& tick, flame::Profile& profile) {
  Watched& watched = threads_[thread.tid];
  if (!watched.id) {
    const std::string& name = thread.python_name.empty() ? thread.name : thread.python_name;
    watched.id = profile.AddThread({pid_, thread.tid, name, name_, rank_});
  }
  watched.seen = true;
  if (!watched.due) return;
  const std::int64_t start_ns = StartOfSample(watched, thread.has_gil, tick, profile);
  const auto ticks = static_cast<std::uint32_t>((now_ns_ - start_ns) / period_ns_);
  watched.covered_until_ns = now_ns_;
  const flame::Sample sample{start_ns, ticks, *watched.id, 0, watched.on_cpu, thread.has_gil};
  if (thread.skipped) {
    profile.RepeatSample(sample);
    return;
  }
  watched.has_stack = !thread.torn;
  if (thread.torn) {
    profile.losses().torn += ticks;
    return;
  }
  profile.AddSample(sample, frames);
}

void ProcessSampler::ForgetUnseen(flame::Profile& profile) {
  for (auto entry = threads_.begin(); entry != threads_.end();) {
    if (entry->second.seen) {
      entry->second.seen = false;
      ++entry;
    } else {
      if (entry->second.id) profile.EndThread(*entry->second.id);
      entry = threads_.erase(entry);
    }
  }
}

void ProcessSampler::Leave(flame::Profile& profile) {
  for (const auto& [tid, watched] : threads_) {
    if (watched.id) profile.EndThread(*watched.id);
  }
  threads_.clear();
  for (const auto& [id, shown] : shown_tasks_) {
    if (shown.thread) profile.EndThread(*shown.thread);
  }
  shown_tasks_.clear();
}

}  // namespace probing::observe
