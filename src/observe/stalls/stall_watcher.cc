#include "observe/stalls/stall_watcher.h"

#include <sys/syscall.h>
#include <time.h>

#include <algorithm>

#include "base/clock.h"
#include "process/blocked_call.h"
#include "process/held_thread.h"
#include "process/urgent.h"

namespace probing::observe {
namespace {

constexpr std::size_t kMaxDepth = 256;
constexpr int kAttempts = 4;
constexpr std::int64_t kHoldMs = 20;
constexpr std::int64_t kCheckThreadsNs = 200'000'000;  // whether some have ended
constexpr int kRechecks = 3;                           // looks after a thread came
constexpr std::int64_t kGoesOnNs = 5'000'000'000;      // then it is written before it ends
constexpr std::int64_t kSecondNs = 1'000'000'000;
// Of one look, beyond what is always due: a dozen stacks, or clocks of a hundred threads that sleep.
constexpr int kMostEffort = 100;
constexpr int kEffortOfStack = 8;
// A thread that waits for the GIL looks for it every 5 ms.
constexpr std::int64_t kGilWaitNs = 10'000'000;

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

StallWatcher::StallWatcher(pid_t pid, const StallOptions& options, cpython::Interpreter interpreter)
    : pid_(pid),
      options_(options),
      interpreter_(std::move(interpreter)),
      trail_(options.trail_bytes),
      pace_(Pace::Options{}) {}

Result<StallWatcher> StallWatcher::Attach(pid_t pid, const StallOptions& options) {
  ASSIGN_OR_RETURN(auto interpreter, cpython::Interpreter::Attach(pid));
  return StallWatcher(pid, options, std::move(interpreter));
}

Result<void> StallWatcher::Look() {
  const std::int64_t cpu_ns = ReadClockNs(CLOCK_THREAD_CPUTIME_ID);
  last_look_ns_ = now_ns_;
  now_ns_ = MonotonicNs();
  Result<void> done;
  if (LookAtClocks()) done = ReadStacks();
  if (done.ok()) {
    for (auto& [tid, watched] : threads_) {
      if (watched.is_due) trail_.AddWait(tid, {.at_ns = now_ns_, .waited_ns = watched.waited_ns});
    }
    for (auto& [tid, watched] : threads_) FollowLoop(tid, watched);
    FollowGil();
    Store();
  }
  spent_ns_ = ReadClockNs(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
  next_ns_ = pace_.Next(last_look_ns_ == 0 ? now_ns_ : last_look_ns_, now_ns_, spent_ns_, IsClose());
  return done;
}

void StallWatcher::Wait() {
  const timespec until{static_cast<time_t>(next_ns_ / kSecondNs), static_cast<long>(next_ns_ % kSecondNs)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

std::vector<Stall> StallWatcher::Take() { return std::exchange(found_, {}); }

void StallWatcher::LookCloser(std::int64_t until_ns) {
  close_until_ns_ = std::max(close_until_ns_, until_ns);
}

// True when stacks are to be read: some thread may have run.
bool StallWatcher::LookAtClocks() {
  bool any = threads_.empty() || rechecks_left_ > 0 || now_ns_ >= next_check_ns_;
  // Of the GIL's waiters it is known by their clocks.
  const bool all = MayHaveGilWaiters();
  std::vector<std::pair<std::int64_t, pid_t>> in_turn;  // longest ago first
  std::vector<pid_t> ended;
  const auto look_at = [&](pid_t tid, Watched& watched) {
    if (!LookAtClock(watched)) ended.push_back(tid);
    any = any || watched.has_run || !watched.has_stack;
  };
  for (auto& [tid, watched] : threads_) {
    watched.fresh.reset();
    watched.is_due = all || IsAlwaysDue(tid, watched);
    if (watched.is_due) {
      look_at(tid, watched);
    } else {
      in_turn.emplace_back(watched.looked_ns, tid);
    }
  }
  std::sort(in_turn.begin(), in_turn.end());
  int effort = 0;
  for (const auto& [looked_ns, tid] : in_turn) {
    if (effort >= kMostEffort) break;
    Watched& watched = threads_[tid];
    watched.is_due = true;
    look_at(tid, watched);
    effort += watched.has_run ? kEffortOfStack : 1;
  }
  for (const pid_t tid : ended) {  // its id may belong to another thread soon
    Watched& watched = threads_[tid];
    if (watched.busy_since_ns != 0) EndLoopStall(tid, watched, now_ns_, false);
    trail_.End(tid);
    threads_.erase(tid);
    any = check_all_ = true;
  }
  return any;
}

bool StallWatcher::IsAlwaysDue(pid_t tid, const Watched& watched) const {
  return tid == pid_ || tid == holder_ || watched.loop || !watched.has_stack;
}

// False when it has ended.
bool StallWatcher::LookAtClock(Watched& watched) {
  watched.looked_ns = now_ns_;
  const auto look = watched.clock ? watched.clock->LookNow() : Result<ThreadClock::Look>(ThreadClock::Look{});
  if (!look.ok()) return false;
  watched.on_cpu = look->on_cpu;
  watched.times_run = look->times_run;
  watched.waited_ns = look->waited_ns;
  if (look->has_run) watched.has_run = true;
  return true;
}

Result<void> StallWatcher::ReadStacks() {
  if (now_ns_ >= next_check_ns_ || rechecks_left_ > 0) check_all_ = true;
  cpython::ReadOptions options;
  options.max_depth = kMaxDepth;
  options.event_loops = true;
  options.changes = check_all_ ? cpython::Changes::kAll : cpython::Changes::kNew;
  options.skip = [this](const cpython::Thread& thread) { return MaySkip(thread); };
  options.steady = [this](const cpython::Thread& thread, const cpython::ReadOptions::ReadOnce& read) {
    ReadPatiently(thread, read);
  };
  if (check_all_) next_check_ns_ = now_ns_ + kCheckThreadsNs;
  check_all_ = false;
  ASSIGN_OR_RETURN(cpython::Snapshot snapshot, interpreter_.Read(options));
  switches_read_ = snapshot.gil_switches;
  holder_ = snapshot.gil_holder_tid;
  // A thread that begins has its creator's number until it runs for the first time.
  if (rechecks_left_ > 0) --rechecks_left_;
  if (std::exchange(thread_count_, snapshot.threads.size()) < snapshot.threads.size())
    rechecks_left_ = kRechecks;
  for (cpython::Thread& thread : snapshot.threads) {
    Watched& watched = threads_[thread.tid];
    if (watched.name.empty()) watched.name = thread.python_name.empty() ? thread.name : thread.python_name;
    watched.has_gil = thread.has_gil;
    watched.is_torn = thread.torn;
    if (thread.skipped || thread.torn) continue;
    watched.has_run = false;
    watched.has_stack = true;
    watched.loop = thread.loop;
    watched.stack_in_stall = true;
    watched.fresh = ToFrames(thread.frames);
  }
  return {};
}

// Asked by the reader just before it would read this thread's stack.
bool StallWatcher::MaySkip(const cpython::Thread& thread) {
  Watched& watched = threads_[thread.tid];
  if (!watched.clock && thread.tid != 0) {
    auto clock = ThreadClock::Open(pid_, thread.tid);
    if (clock.ok()) watched.clock = std::move(*clock);
  }
  if (!watched.has_stack) return false;
  if (!watched.is_due || !watched.has_run) return true;
  // Another thread had the GIL, and nobody has taken it from that one since: this one ran no Python.
  const auto switches = interpreter_.gil_switches();
  return switches && switches == switches_read_ && holder_.value_or(thread.tid) != thread.tid;
}

void StallWatcher::ReadPatiently(const cpython::Thread& thread, const cpython::ReadOptions::ReadOnce& read) {
  for (int i = 0; i < kAttempts; ++i) {
    if (read() == cpython::Reading::kRight) return;
  }
  const Watched& watched = threads_[thread.tid];
  // What an event loop does is told by its stack alone: it is held when it could not be read twice.
  const bool stalls = watched.busy_since_ns != 0 && now_ns_ - watched.busy_since_ns > options_.limit_ns / 2;
  const bool must_see = (stalls && !watched.stack_in_stall) || (watched.loop && watched.is_torn);
  if (!must_see || thread.tid == 0) return;
  const process::Urgent urgent;
  const auto held = process::HeldThread::Hold(thread.tid, Deadline::AfterMs(kHoldMs));
  (void)read();
}

void StallWatcher::Store() {
  for (const auto& [tid, watched] : threads_) {
    // The next look stands for this one, too.
    if (!watched.has_stack || !watched.is_due || watched.is_torn) continue;
    const Trail::Look look{now_ns_, watched.on_cpu, watched.has_gil, watched.waited_ns};
    trail_.Add(pid_, tid, watched.name, look, watched.fresh ? &*watched.fresh : nullptr);
  }
}

// ── event loops ──────────────────────────────────────────────────────────────────────────────

bool StallWatcher::IsWaitingNative(pid_t tid, const Watched& watched) const {
  if (watched.loop->is_waiting) return true;
  if (watched.on_cpu) return false;
  const auto call = process::ReadBlockedCall(pid_, tid);
  if (!call.ok()) return false;
  bool waits = call->number == SYS_epoll_pwait;
#ifdef SYS_epoll_wait
  waits = waits || call->number == SYS_epoll_wait;
#endif
  return waits;
}

void StallWatcher::FollowLoop(pid_t tid, Watched& watched) {
  const bool waits =
      !watched.loop ||
      (watched.loop->is_native && watched.fresh ? IsWaitingNative(tid, watched) : watched.loop->is_waiting);
  if (watched.loop && watched.loop->is_native && watched.fresh) watched.loop->is_waiting = waits;
  if (waits) {
    if (watched.busy_since_ns != 0) EndLoopStall(tid, watched, now_ns_, false);
    watched.busy_since_ns = 0;
    watched.idle_ns = now_ns_;
    return;
  }
  const std::int64_t turned_ns = watched.loop->turned_ns;
  // A stale time of a turn before the wait: it has only just woken.
  const std::int64_t since_ns = std::max(turned_ns, watched.idle_ns);
  if (watched.busy_since_ns != 0 && since_ns > watched.busy_since_ns) {
    EndLoopStall(tid, watched, std::min(turned_ns, now_ns_), true);
    watched.busy_since_ns = 0;
  }
  if (watched.busy_since_ns == 0) {
    watched.busy_since_ns = std::min(since_ns, now_ns_);
    watched.was_reported = false;
    watched.stack_in_stall = watched.fresh.has_value();
  }
  watched.busy_seen_ns = now_ns_;
  if (!watched.was_reported && now_ns_ - watched.busy_since_ns > kGoesOnNs) {
    watched.was_reported = true;
    Stall stall{.kind = std::string(kEventLoopStall), .start_ns = watched.busy_since_ns};
    stall.duration_ns = now_ns_ - watched.busy_since_ns;
    stall.has_ended = false;
    stall.tid = tid;
    Report(std::move(stall));
  }
}

// It ended between the last look that saw it and `end_ns`; at the latter, if that is exact.
void StallWatcher::EndLoopStall(pid_t tid, Watched& watched, std::int64_t end_ns, bool is_exact) {
  const std::int64_t longest_ns = end_ns - watched.busy_since_ns;
  const std::int64_t shortest_ns = watched.busy_seen_ns - watched.busy_since_ns;
  // Seen in the second half of the limit at least: what a single look saw may be two things.
  if (longest_ns < options_.limit_ns || shortest_ns < options_.limit_ns / 2) return;
  Stall stall{.kind = std::string(kEventLoopStall), .start_ns = watched.busy_since_ns};
  stall.duration_ns = is_exact ? longest_ns : (longest_ns + shortest_ns) / 2;
  stall.tid = tid;
  Report(std::move(stall));
}

// ── the GIL ──────────────────────────────────────────────────────────────────────────────────

void StallWatcher::FollowGil() {
  const pid_t holder = holder_.value_or(0);
  if (gil_.since_ns != 0 && (gil_.switches != switches_read_ || gil_.holder != holder)) {
    EndGilStall(now_ns_);
    gil_ = {};
  }
  if (!switches_read_ || holder == 0) return;
  if (gil_.since_ns == 0) {
    gil_.switches = switches_read_;
    gil_.holder = holder;
    gil_.before_ns = last_look_ns_ == 0 ? now_ns_ : last_look_ns_;
    gil_.since_ns = now_ns_;
  }
  gil_.seen_ns = now_ns_;
  CountGilWaiters();
  if (gil_.waiting == 0 || gil_.was_reported || now_ns_ - gil_.since_ns < kGoesOnNs) return;
  EndGilStall(now_ns_);
  gil_.was_reported = true;
}

// Whether it is time to find out: the GIL has been kept for a while, and not for so long that it would be
// known.
bool StallWatcher::MayHaveGilWaiters() const {
  const std::int64_t age_ns = now_ns_ - gil_.since_ns;
  return gil_.since_ns != 0 && age_ns >= 2 * kGilWaitNs && age_ns < 4 * options_.limit_ns;
}

// Those that sleep where the GIL is waited for; where that place is not known, those that woke again and
// again meanwhile and did not run.
void StallWatcher::CountGilWaiters() {
  const std::int64_t age_ns = now_ns_ - gil_.since_ns;
  if (age_ns < 2 * kGilWaitNs) return;
  std::size_t waiting = 0;
  for (const auto& [tid, watched] : threads_) {
    if (tid == gil_.holder || !watched.is_due || watched.on_cpu) continue;
    const auto call = process::ReadBlockedCall(pid_, tid);
    if (!call.ok() || call->number != SYS_futex) continue;
    const auto waits = interpreter_.IsGilWait(call->arguments[0]);
    const auto [times, is_new] = gil_.times_run.try_emplace(tid, watched.times_run);
    const auto many = static_cast<std::uint64_t>(age_ns / (2 * kGilWaitNs));
    waiting += waits.value_or(!is_new && watched.times_run - times->second >= many);
  }
  gil_.waiting = std::max(gil_.waiting, waiting);
}

void StallWatcher::EndGilStall(std::int64_t end_ns) {
  const std::int64_t shortest_ns = gil_.seen_ns - gil_.since_ns;
  const std::int64_t duration_ns = (shortest_ns + end_ns - gil_.before_ns) / 2;
  if (gil_.waiting == 0 || shortest_ns < options_.limit_ns / 2 || duration_ns * 5 < options_.limit_ns * 4)
    return;
  Stall stall{.kind = std::string(kGilStall), .start_ns = (gil_.before_ns + gil_.since_ns) / 2};
  stall.duration_ns = duration_ns;
  stall.tid = gil_.holder;
  stall.waiting_threads = static_cast<std::int64_t>(gil_.waiting);
  stall.why = "kept the GIL while " + std::to_string(gil_.waiting) +
              (gil_.waiting == 1 ? " thread" : " threads") + " waited for it";
  Report(std::move(stall));
}

// ── what comes of it ─────────────────────────────────────────────────────────────────────────

void StallWatcher::Explain(Stall& stall, std::int64_t usual_ns) const {
  if (stall.tid == 0 || !trail_.Knows(stall.tid))
    stall.tid =
        trail_.Knows(pid_) ? pid_ : trail_.BusiestThread(stall.start_ns, stall.start_ns + stall.duration_ns);
  trail_.Explain(stall, usual_ns);
  // The machine was the reason, not the program: it could have run and had no CPU.
  if (stall.cpu_wait_ns * 2 > stall.duration_ns && (stall.kind == kEventLoopStall || stall.kind == kGilStall))
    stall.kind = kCpuStall;
}

void StallWatcher::Report(Stall stall) {
  const bool is_about_gil = stall.kind == kGilStall;
  Explain(stall, 0);  // by earlier looks: what this one has seen comes after it
  // What a probe does with the GIL is no news of the program: probing.overhead has it. Its thread, named
  // after it, may have ended meanwhile; then the outermost frame says so.
  const std::string outermost = stall.stack.substr(0, stall.stack.find(';'));
  if (is_about_gil &&
      (stall.thread_name.starts_with("probing") || outermost.find("(<libprobing>") < outermost.size()))
    return;
  if (!rows_.Take(now_ns_)) return;
  stall.left_out = rows_.TakeLeftOut();
  found_.push_back(std::move(stall));
}

bool StallWatcher::IsClose() const {
  if (now_ns_ < close_until_ns_) return true;
  const std::int64_t early_ns = options_.limit_ns * 2 / 5;
  if (MayHaveGilWaiters() || (gil_.since_ns != 0 && gil_.waiting > 0)) return true;
  return std::any_of(threads_.begin(), threads_.end(), [&](const auto& entry) {
    return entry.second.busy_since_ns != 0 && now_ns_ - entry.second.busy_since_ns >= early_ns;
  });
}

}  // namespace probing::observe
