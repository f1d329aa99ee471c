#include "observe/stacks/process_sampler.h"

#include "process/status.h"

namespace probing::observe {
namespace {

constexpr std::size_t kMaxDepth = 512;     // innermost frames: a picture of more helps nobody
constexpr std::size_t kMaxNameBytes = 80;  // of a command line
// Each attempt takes some ten microseconds. What is still torn then is counted as torn: trying on
// would favour moments in which the program does little.
constexpr int kAttempts = 8;

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
  cpython::ReadOptions options;
  options.max_depth = kMaxDepth;
  options.attempts = kAttempts;
  options.skip = [this](pid_t tid) { return MayRepeat(tid); };
  ASSIGN_OR_RETURN(cpython::Snapshot snapshot, interpreter_.Read(options));
  for (cpython::Thread& thread : snapshot.threads) Store(thread, tick, profile);
  ForgetUnseen(profile);
  return {};
}

// Asked by the reader just before it would read this thread's stack.
bool ProcessSampler::MayRepeat(pid_t tid) {
  Watched& watched = threads_[tid];
  if (!watched.clock && tid != 0) {
    auto clock = ThreadClock::Open(pid_, tid);
    if (clock.ok()) watched.clock = std::move(*clock);
  }
  if (!watched.clock) return false;
  const auto look = watched.clock->LookNow();
  if (!look.ok()) {
    watched.clock.reset();  // ended; its id may belong to another thread next time
    watched.on_cpu = false;
    return false;
  }
  watched.on_cpu = look->on_cpu;
  return !look->has_run && watched.has_stack;
}

void ProcessSampler::Store(cpython::Thread& thread, const Tick& tick, flame::Profile& profile) {
  Watched& watched = threads_[thread.tid];
  if (!watched.id) watched.id = profile.AddThread({pid_, thread.tid, thread.name, name_});
  watched.seen = true;
  watched.has_gil = thread.has_gil;
  const flame::Sample sample{tick.start_ns, tick.count, *watched.id, 0, watched.on_cpu, watched.has_gil};
  if (thread.skipped) {
    profile.RepeatSample(sample);
    return;
  }
  watched.has_stack = !thread.torn;
  if (thread.torn) {
    profile.losses().torn += tick.count;
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
