#include "observe/stacks/process_sampler.h"

#include <algorithm>

#include "process/status.h"

namespace probing::observe {
namespace {

constexpr std::size_t kMaxDepth = 512;     // innermost frames: a picture of more helps nobody
constexpr std::size_t kMaxNameBytes = 80;  // of a command line
// Each attempt takes some ten microseconds. What is still torn then is counted as torn: trying on
// would favour moments in which the program does little.
constexpr int kAttempts = 8;

constexpr int kQuietLooks = 32;                // after so many a thread is looked at less often...
constexpr std::int64_t kQuietNs = 50'000'000;  // ...but at least this often
constexpr std::int64_t kMaxQuietPeriods = 16;

std::vector<flame::Frame> ToFrames(std::vector<cpython::Frame>& frames) {
  std::vector<flame::Frame> converted;
  converted.reserve(frames.size());
  for (cpython::Frame& frame : frames) {
    converted.push_back({flame::FrameKind::kPython, std::move(frame.function), std::move(frame.file),
                         frame.line, frame.first_line});
  }
  return converted;
}

}  // namespace

ProcessSampler::ProcessSampler(pid_t pid, std::string name, cpython::Interpreter interpreter)
    : pid_(pid), name_(std::move(name)), interpreter_(std::move(interpreter)) {}

Result<ProcessSampler> ProcessSampler::Attach(pid_t pid) {
  ASSIGN_OR_RETURN(auto interpreter, cpython::Interpreter::Attach(pid));
  return ProcessSampler(pid, process::CommandLine(pid).substr(0, kMaxNameBytes), std::move(interpreter));
}

Result<void> ProcessSampler::Sample(const Tick& tick, flame::Profile& profile) {
  period_ns_ = profile.period_ns();
  now_ns_ = tick.start_ns + tick.count * period_ns_;
  cpython::ReadOptions options;
  options.max_depth = kMaxDepth;
  options.attempts = kAttempts;
  // Threads that come are noticed at once, those that end now and then, or when the kernel says so.
  const bool check_all = now_ns_ >= next_check_ns_;
  options.changes = check_all ? cpython::Changes::kAll : cpython::Changes::kNew;
  if (check_all) next_check_ns_ = now_ns_ + kQuietNs;
  options.skip = [this](const cpython::Thread& thread) { return MayRepeat(thread); };
  ASSIGN_OR_RETURN(cpython::Snapshot snapshot, interpreter_.Read(options));
  for (cpython::Thread& thread : snapshot.threads) Store(thread, tick, profile);
  ForgetUnseen(profile);
  return {};
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
  watched.due = IsDue(watched, thread.has_gil);
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

void ProcessSampler::Store(cpython::Thread& thread, const Tick& tick, flame::Profile& profile) {
  Watched& watched = threads_[thread.tid];
  if (!watched.id) {
    const std::string& name = thread.python_name.empty() ? thread.name : thread.python_name;
    watched.id = profile.AddThread({pid_, thread.tid, name, name_});
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
  profile.AddSample(sample, ToFrames(thread.frames));
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
}

}  // namespace probing::observe
