#include "observe/stacks/recorder.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>

#include "base/clock.h"
#include "observe/stacks/descendants.h"
#include "process/status.h"

namespace probing::observe {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kMaxWaitNs = kSecondNs / 10;
constexpr std::int64_t kLookForChildrenNs = kSecondNs / 10;
constexpr std::int64_t kPatienceNs = kSecondNs / 2;  // with a process that cannot be read for the moment
constexpr std::int64_t kStrangerNs = 3 * kSecondNs;  // a child may become Python by exec until then
constexpr std::int64_t kFirstLookUs = 20'000;        // between looks for the first child with Python
constexpr std::int64_t kLongestDelayNs = kSecondNs;  // beyond it nobody knows what a sample stands for

// Two files stay open per thread; 1024, the usual limit, is 500 threads.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::int64_t PeriodNs(double hz) {
  return static_cast<std::int64_t>(kSecondNs / std::clamp(hz, 1e-3, kMaxHzOfOne));
}

// SplitMix64: numbers that follow each other become numbers that have nothing to do with each other.
std::uint64_t Mixed(std::uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15U;
  number = (number ^ number >> 30U) * 0xbf58476d1ce4e5b9U;
  number = (number ^ number >> 27U) * 0x94d049bb133111ebU;
  return number ^ number >> 31U;
}

bool IsRunning(pid_t pid) {
  const auto status = process::ReadStatus(pid);
  return status.ok() && !status->ended();
}

}  // namespace

Recorder::Recorder(std::vector<Root> roots, const RecorderOptions& options)
    : roots_(std::move(roots)),
      options_(options),
      profile_(PeriodNs(options.hz), options.limits),
      seed_(options.seed != 0 ? options.seed : static_cast<std::uint64_t>(MonotonicNs() ^ roots_[0].pid)) {
  profile_.Mark(options.reason);
  Begin();
}

// The next sample stands for so many periods that the hold of this one is kMostHeld of them, and is at a
// moment drawn from all of them: one at their end would be too late to see what the held one saw.
void Recorder::SpareTarget() {
  std::int64_t held_ns = 0;
  for (const auto& [pid, running] : samplers_) held_ns = std::max(held_ns, running.sampler.held_ns());
  const double pause_ns = std::min(static_cast<double>(held_ns) / kMostHeld, kLongestDelayNs / 2.0);
  spared_ = static_cast<std::int64_t>(pause_ns) / profile_.period_ns();
}

void Recorder::DrawTick() {
  const std::int64_t period_ns = profile_.period_ns();
  const auto number = static_cast<std::uint64_t>((period_start_ns_ - grid_ns_) / period_ns);
  const auto all_ns = static_cast<std::uint64_t>((spared_ + 1) * period_ns);
  next_tick_ns_ = period_start_ns_ + static_cast<std::int64_t>(Mixed(seed_ + number) % all_ns);
}

Result<void> Recorder::Attach(const Root& root) {
  SamplerOptions sampler_options = options_.sampler;
  sampler_options.rank = root.rank;
  ASSIGN_OR_RETURN(ProcessSampler sampler, ProcessSampler::Attach(root.pid, sampler_options));
  samplers_.emplace(root.pid, Running{std::move(sampler)});
  return {};
}

Result<Recorder> Recorder::Start(pid_t pid, const RecorderOptions& options) {
  return StartAll({{pid}}, options);
}

Result<Recorder> Recorder::StartAll(const std::vector<Root>& roots, const RecorderOptions& options) {
  RaiseFileLimit();
  // This thread is woken up to 50 us late otherwise, which is half a period then.
  if (options.hz > kMaxHz) prctl(PR_SET_TIMERSLACK, 1000UL);
  Recorder recorder(roots, options);
  bool may_have_children = false;
  for (const Root& root : roots) {
    Result<void> attached = recorder.Attach(root);
    if (attached.ok()) continue;
    // A shell, or the bootloader of a packed program: what it has started is looked at.
    if (options.follow_children && attached.error().code == Code::kFailed) may_have_children = true;
    recorder.gone_.push_back({root.pid, 0, std::move(attached.error())});
  }
  if (recorder.samplers_.empty()) {
    const Error why = recorder.gone_.front().error;
    if (!may_have_children) return why;
    RETURN_IF_ERROR(recorder.AwaitChild(why));
  }
  if (may_have_children)
    std::erase_if(recorder.gone_, [](const Gone& gone) { return gone.error.code == Code::kFailed; });
  recorder.Begin();  // all of that took its time
  return recorder;
}

Result<void> Recorder::AwaitChild(const Error& why) {
  const Deadline deadline = Deadline::AfterNs(kStrangerNs);
  while (true) {
    Follow(MonotonicNs());
    if (!samplers_.empty()) return {};
    if (deadline.passed() || !is_going()) {
      const std::string count = std::to_string(strangers_.size());
      return Error{why.code, why.message + ", nor in one of its " + count + " children", why.hint};
    }
    SleepUs(kFirstLookUs);
  }
}

// At the start that was asked for, or with the first whole period after it.
void Recorder::Begin() {
  const std::int64_t now_ns = MonotonicNs();
  grid_ns_ = options_.start_ns != 0 ? options_.start_ns : now_ns;
  const std::int64_t period_ns = profile_.period_ns();
  const std::int64_t late_ns = std::max<std::int64_t>(0, now_ns - grid_ns_);
  started_ns_ = period_start_ns_ = grid_ns_ + (late_ns + period_ns - 1) / period_ns * period_ns;
  DrawTick();
}

bool Recorder::is_going() const {
  return !samplers_.empty() || (options_.follow_children && std::ranges::any_of(roots_, [](const Root& root) {
                                  return IsRunning(root.pid);
                                }));
}

void Recorder::Wait() const {
  const std::int64_t until_ns = std::min(next_tick_ns_, MonotonicNs() + kMaxWaitNs);
  const timespec until{static_cast<time_t>(until_ns / kSecondNs), static_cast<long>(until_ns % kSecondNs)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

bool Recorder::Sample() {
  const std::int64_t now_ns = MonotonicNs();
  if (options_.follow_children && now_ns >= next_look_ns_) Follow(now_ns);
  if (now_ns < next_tick_ns_) return is_going();
  const std::int64_t late_ns = now_ns - period_start_ns_;
  const std::int64_t missed = std::max(spared_, late_ns / profile_.period_ns());
  profile_.losses().spared += static_cast<std::uint64_t>(spared_);
  profile_.losses().missed += static_cast<std::uint64_t>(missed - spared_);
  // After a long pause (this process was stopped) the sample stands for itself only.
  const bool paused = late_ns > kLongestDelayNs && missed > 0;
  Tick tick{period_start_ns_, static_cast<std::uint32_t>(missed + 1)};
  if (paused) tick = {period_start_ns_ + missed * profile_.period_ns(), 1};
  periods_ += tick.count;
  squared_periods_ += std::uint64_t{tick.count} * tick.count;
  period_start_ns_ += (missed + 1) * profile_.period_ns();
  SampleAll(tick);
  SpareTarget();
  DrawTick();
  ++samples_taken_;
  return is_going();
}

std::uint64_t Recorder::equal_looks() const {
  return squared_periods_ == 0 ? 0 : periods_ * periods_ / squared_periods_;
}

void Recorder::SampleAll(const Tick& tick) {
  for (auto entry = samplers_.begin(); entry != samplers_.end();) {
    Running& running = entry->second;
    const Result<void> sampled = running.sampler.Sample(tick, profile_);
    if (sampled.ok()) {
      running.failing_since_ns = 0;
      ++entry;
      continue;
    }
    if (running.failing_since_ns == 0) running.failing_since_ns = tick.start_ns;
    if (sampled.error().code == Code::kFailed && tick.start_ns - running.failing_since_ns < kPatienceNs) {
      ++entry;
      continue;
    }
    ended_ = sampled.error();
    if (std::ranges::any_of(roots_, [&](const Root& root) { return root.pid == entry->first; }))
      gone_.push_back({entry->first, MonotonicNs(), sampled.error()});
    running.sampler.Leave(profile_);
    entry = samplers_.erase(entry);
  }
}

void Recorder::Follow(std::int64_t now_ns) {
  next_look_ns_ = now_ns + kLookForChildrenNs;
  for (const Root& root : roots_) {
    for (const pid_t child : FindDescendants(root.pid)) {
      if (samplers_.contains(child)) continue;
      const auto [stranger, is_new] = strangers_.try_emplace(child, now_ns);
      if (now_ns - stranger->second > kStrangerNs) continue;
      if (Attach({child, root.rank}).ok()) strangers_.erase(stranger);
    }
  }
}

}  // namespace probing::observe
