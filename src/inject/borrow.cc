#include "inject/borrow.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "inject/preflight_rules.h"
#include "process/blocked_call.h"
#include "process/interrupted_call.h"
#include "process/status.h"
#include "process/urgent.h"

namespace probing::inject {
namespace {

using process::TracedThread;

constexpr std::size_t kHelperStackBytes = 1 << 20;  // room for static TLS and dlopen
constexpr std::size_t kMaxThreadsLookedAt = 512;
constexpr int kAttemptsPerRound = 8;
constexpr std::int64_t kPauseWhenAllRefusedUs = 2000;
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

constexpr std::uint64_t kDeepestCall = 256 * 1024;  // bytes of stack below the way back

std::string TaskFile(pid_t pid, pid_t tid, const char* file) {
  return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + file;
}

// Which threads were refused and why: says which to try next, and what to tell if none will do.
class Refusals {
 public:
  void Add(pid_t tid, Verdict verdict) {
    ++counts_[static_cast<std::size_t>(verdict)];
    if (MayLast(verdict)) lasting_.insert(tid);
  }
  bool MayLastFor(pid_t tid) const { return lasting_.contains(tid); }

  // "42 times a thread was inside the C library…; …", the most frequent first.
  std::string Text() const {
    std::vector<std::pair<int, Verdict>> found;
    for (std::size_t i = 0; i < kVerdicts; ++i) {
      if (counts_[i] > 0) found.emplace_back(counts_[i], static_cast<Verdict>(i));
    }
    std::sort(found.rbegin(), found.rend());
    std::string text;
    for (const auto& [count, verdict] : found) {
      if (!text.empty()) text += "; ";
      text += std::to_string(count) + (count == 1 ? " time" : " times") + " a thread " + Describe(verdict);
    }
    return text;
  }

 private:
  std::array<int, kVerdicts> counts_{};
  std::set<pid_t> lasting_;
};

struct Choice {
  std::vector<pid_t> order;      // those that may be tried, best first
  std::int64_t other_call = -1;  // a call in which some other thread waits
};

// Threads in the order in which they should be tried: first one whose wait survives a stop, then those that
// run; those that were refused for a reason that may last come last. A thread that waits where it may not be
// borrowed is not stopped at all: nothing would come of it but a wait that begins anew.
Choice RankThreads(pid_t pid, const Refusals& refusals) {
  Choice choice;
  auto threads = process::ListThreads(pid);
  if (!threads.ok()) return choice;
  enum Rank : std::uint8_t { kWaits, kRuns, kTimedWait, kMayLoseTime, kLosesTime };
  struct Candidate {
    bool refused;
    Rank rank;
    pid_t tid;
    auto operator<=>(const Candidate&) const = default;
  };
  std::vector<Candidate> ranked;
  for (const pid_t tid : std::span(*threads).first(std::min(threads->size(), kMaxThreadsLookedAt))) {
    auto call = PeekSyscall(pid, tid);
    if (!call.ok()) continue;  // ended, or already dead and waiting for the others
    const bool refused = refusals.MayLastFor(tid);
    if (call->number < 0) {
      ranked.push_back({refused, kRuns, tid});
      continue;
    }
    const Wait wait = Classify(*call);
    const bool survives = process::SurvivesStop(pid, {call->number, call->arguments, 0, 0});
    if (wait == Wait::kRepeatable && survives && !refused) return {{tid}, -1};
    if (wait == Wait::kUnknown) choice.other_call = call->number;
    if (wait == Wait::kRepeatable) ranked.push_back({refused, survives ? kWaits : kMayLoseTime, tid});
    if (wait == Wait::kTimed) ranked.push_back({refused, kTimedWait, tid});
    if (wait == Wait::kTimedLost) ranked.push_back({refused, kLosesTime, tid});
  }
  std::sort(ranked.begin(), ranked.end());
  for (const Candidate& candidate : ranked) choice.order.push_back(candidate.tid);
  return choice;
}

// How much of its time-out a thread in epoll_wait has used up when it is stopped. The kernel forgets that, so
// the call has to be made again with what is left.
class UsedTime {
 public:
  // REQUIRES: before the stop.
  static std::optional<UsedTime> Measure(pid_t pid, pid_t tid) {
    UsedTime used;
    used.pid_ = pid;
    used.tid_ = tid;
    const auto times_run = process::ReadTimesRun(pid, tid);
    auto call = PeekSyscall(pid, tid);
    if (!times_run || !call.ok() || Classify(*call) != Wait::kTimedLost) return std::nullopt;
    const auto asleep_ns = process::AsleepForNs(pid, tid);
    if (!asleep_ns) return std::nullopt;
    used.times_run_ = *times_run;
    used.call_ = *call;
    used.began_ns_ = MonotonicNs() - *asleep_ns;
    return used;
  }

  // Takes the used time off the time-out of the call that is made again. Does nothing when it cannot be sure
  // that it is the same wait: being woken for the stop counts as one run, more means that the thread did
  // something. REQUIRES: the thread is stopped.
  void TakeOff(const arch::Registers& found, arch::Registers& resume) const {
    constexpr std::int64_t kNsPerMs = 1'000'000;
    constexpr std::size_t kTimeoutArgument = 3;  // of epoll_wait
    const Syscall now = SyscallOf(found);
    if (now.number != call_.number || now.arguments != call_.arguments || resume.ip() == found.ip()) return;
    if (process::ReadTimesRun(pid_, tid_) != times_run_ + 1) return;
    const std::int64_t used_ms = (MonotonicNs() - began_ns_) / kNsPerMs;
    const auto timeout_ms = static_cast<std::int32_t>(found.syscall_argument(kTimeoutArgument));
    resume.set_syscall_argument(kTimeoutArgument,
                                static_cast<std::uint64_t>(std::max<std::int64_t>(timeout_ms - used_ms, 0)));
  }

 private:
  pid_t pid_ = 0;
  pid_t tid_ = 0;
  std::uint64_t times_run_ = 0;
  Syscall call_;
  std::int64_t began_ns_ = 0;
};

// Tells whether a thread has a seccomp filter of its own, in time to be asked while it is held.
class FilterWatch {
 public:
  FilterWatch(pid_t pid, pid_t tid)
      : file_(open(TaskFile(pid, tid, "status").c_str(), O_RDONLY | O_CLOEXEC)) {}

  // True when it cannot be told.
  bool Filtered() const {
    static const Seccomp ours = [] {
      auto text = ReadFile("/proc/self/status");
      return text.ok() ? Seccomp::Parse(*text) : Seccomp{};
    }();
    std::array<char, 8192> text{};
    const ssize_t n = pread(file_.get(), text.data(), text.size(), 0);
    return n <= 0 || HasFilterOfItsOwn(Seccomp::Parse({text.data(), static_cast<std::size_t>(n)}), ours);
  }

 private:
  ScopedFd file_;
};

// The bytes of a pthread_attr_t; its layout is part of glibc's ABI.
pthread_attr_t DetachedAttributes() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kHelperStackBytes);
  return attributes;
}

// Lets the thread go through pthread_create to the point where the way back would begin, then
// puts it back by hand. Only so does the kernel restart a timed wait with the time that was left:
// rt_sigreturn would forget it. If we die on the way, the way back is still there.
Result<void> ReturnByHand(TracedThread& thread, const EntryPoints& points, const arch::Registers& original,
                          std::uint64_t signal_mask, const Deadline& deadline) {
  while (true) {
    RETURN_IF_ERROR(thread.RunToSyscall(deadline));
    ASSIGN_OR_RETURN(arch::Registers registers, thread.ReadRegisters());
    if (registers.syscall() == SYS_rt_sigreturn) {
      registers.set_syscall(-1);                    // skip it this time…
      registers.set_ip(points.trampoline.address);  // …but come back to it unless told otherwise
      RETURN_IF_ERROR(thread.WriteRegisters(registers));
      break;
    }
    RETURN_IF_ERROR(thread.RunToSyscall(deadline));
  }
  RETURN_IF_ERROR(thread.RunToSignalPoint(deadline));
  RETURN_IF_ERROR(thread.WriteRegisters(original));
  return thread.WriteSignalMask(signal_mask);
}

// True when the stopped thread waits, or sleeps between two looks at a lock, in the call that we made it do.
bool WaitsInOurCall(const arch::Registers& registers, std::uint64_t call_stack_pointer) {
  return process::WasInterrupted(registers) && call_stack_pointer - registers.sp() < kDeepestCall;
}

enum class Outcome : std::uint8_t { kStarted, kStuck };

// After the thread was sent to start the helper. The helper inherits the mask: no signal of the
// job's may be handled there; signals for this thread wait until the way back unblocks them.
Result<Outcome> FollowThrough(TracedThread& thread, const EntryPoints& points, Verdict verdict,
                              const arch::Registers& original, std::uint64_t signal_mask,
                              std::uint64_t call_stack_pointer) {
  RETURN_IF_ERROR(thread.WriteSignalMask(kAllSignals));
  if (verdict == Verdict::kTimedWait) {
    const auto returned = ReturnByHand(thread, points, original, signal_mask, Deadline::AfterMs(kPatienceMs));
    if (!returned.ok()) {
      RETURN_IF_ERROR(thread.Interrupt(Deadline::AfterMs(kPatienceMs)));
      ASSIGN_OR_RETURN(const arch::Registers registers, thread.ReadRegisters());
      if (WaitsInOurCall(registers, call_stack_pointer)) {
        RETURN_IF_ERROR(thread.WriteRegisters(original));
        RETURN_IF_ERROR(thread.WriteSignalMask(signal_mask));
        RETURN_IF_ERROR(thread.Detach());
        return Outcome::kStuck;
      }
    }
  }
  RETURN_IF_ERROR(thread.Detach());
  return Outcome::kStarted;
}

struct Attempt {
  Verdict verdict = Verdict::kSelfReturn;
  Outcome outcome = Outcome::kStarted;   // when it was borrowed
  std::uint64_t call_stack_pointer = 0;  // when it was borrowed
};

Result<Attempt> TryThread(TracedThread& thread, pid_t pid, const EntryPoints& points,
                          const FilterWatch& filter, const std::optional<UsedTime>& used_time,
                          std::uint64_t sleep_us, const Deadline& deadline) {
  static const pthread_attr_t attributes = DetachedAttributes();
  const process::ProcessMemory memory(pid);

  RETURN_IF_ERROR(thread.Interrupt(deadline));
  ASSIGN_OR_RETURN(const arch::Registers original, thread.ReadRegisters());
  arch::Registers resume;
  Attempt attempt;
  ASSIGN_OR_RETURN(attempt.verdict, Judge(thread, points.rules, pid, original, resume));
  // Only in the C library's own wrapper: nothing there looks at that register after the call.
  if (used_time && points.rules.forbidden.Contains(original.ip())) used_time->TakeOff(original, resume);
  // It may have got one since it was chosen.
  if (MayBorrow(attempt.verdict) && filter.Filtered()) attempt.verdict = Verdict::kFiltered;
  if (!MayBorrow(attempt.verdict)) {
    // A wait that Judge would have had to repeat is restarted by the kernel itself, except
    // those that report EINTR.
    if (resume.ip() != original.ip() && original.result() == -EINTR) {
      RETURN_IF_ERROR(thread.WriteRegisters(resume));
    }
    RETURN_IF_ERROR(thread.Detach());
    return attempt;
  }

  ASSIGN_OR_RETURN(const SavedState state, SaveState(thread, resume));
  WayBack way_back(state, points.trampoline, sizeof(attributes) + 64);
  const auto attributes_at = way_back.Add(std::as_bytes(std::span(&attributes, 1)));
  const std::uint64_t no_thread = 0;
  const auto thread_at = way_back.Add(std::as_bytes(std::span(&no_thread, 1)));
  RETURN_IF_ERROR(memory.Write({way_back.stack_pointer()}, way_back.bytes()));

  arch::Registers call = original;
  call.EnterFunction(points.pthread_create.address, way_back.stack_pointer(), points.trampoline.address);
  call.set_argument(0, thread_at.address);
  call.set_argument(1, attributes_at.address);
  call.set_argument(2, points.usleep.address);
  call.set_argument(3, sleep_us);
  RETURN_IF_ERROR(thread.WriteRegisters(call));
  // From here on the thread comes back by itself and the helper starts, so nothing below may lead
  // to a second try: what fails here shows when the helper is looked for.
  attempt.call_stack_pointer = way_back.stack_pointer();
  auto followed =
      FollowThrough(thread, points, attempt.verdict, original, state.signal_mask, way_back.stack_pointer());
  if (followed.ok()) attempt.outcome = *followed;
  return attempt;
}

// Never the same rhythm twice, never spinning: the target should get out of there.
void PauseBetweenAttempts() { SleepUs(20 + (MonotonicNs() >> 8) % 100); }

Error StuckError(pid_t tid) {
  return {Code::kTimeout,
          "thread " + std::to_string(tid) +
              " waited for a lock that it may hold itself when it was to start a helper; it was put back to "
              "where it was",
          "its allocator seems to wait while it holds a lock: start the program with `probing run`"};
}

}  // namespace

Result<Syscall> PeekSyscall(pid_t pid, pid_t tid) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(TaskFile(pid, tid, "syscall")));
  const auto blocked = process::ParseBlockedCall(text);
  return blocked.ok() ? Syscall{blocked->number, blocked->arguments, blocked->stack_pointer} : Syscall{};
}

Result<SavedState> SaveState(const TracedThread& thread, const arch::Registers& resume) {
  SavedState state;
  state.registers = resume;
  ASSIGN_OR_RETURN(state.vectors, thread.ReadVectorState());
  if (const std::string why = arch::WhyNoFrame(state.vectors); !why.empty()) {
    return Error{Code::kFailed, "thread " + std::to_string(thread.tid()) + " " + why,
                 "try again, or start the program with `probing run`"};
  }
  ASSIGN_OR_RETURN(state.signal_mask, thread.ReadSignalMask());
  return state;
}

Result<Borrowed> StartHelper(pid_t pid, EntryPoints points, std::uint64_t sleep_us,
                             const Deadline& deadline) {
  Borrowed borrowed;
  Refusals refusals;
  Error last{Code::kFailed, "no thread of process " + std::to_string(pid) + " could be looked at", ""};
  while (!deadline.passed()) {
    const Choice choice = RankThreads(pid, refusals);
    const std::vector<pid_t>& order = choice.order;
    if (order.empty() && choice.other_call < 0) break;
    if (order.empty()) {
      last = {Code::kFailed,
              "all its threads wait where they may not be borrowed (system call " +
                  std::to_string(choice.other_call) + ")",
              ""};
      SleepUs(1000);
      continue;
    }
    for (int attempt = 0; attempt < kAttemptsPerRound; ++attempt) {
      borrowed.thread = order[static_cast<std::size_t>(attempt) % order.size()];
      ++borrowed.attempts;
      const FilterWatch filter(pid, borrowed.thread);
      // Not even stopped: the kernel may restart its system call by another one, which the filter sees.
      if (filter.Filtered()) {
        refusals.Add(borrowed.thread, Verdict::kFiltered);
        break;
      }
      // Nor one that would be refused anyway: not every call goes on unharmed after a stop (io_uring_enter).
      if (auto call = PeekSyscall(pid, borrowed.thread);
          call.ok() && call->number >= 0 && Classify(*call) == Wait::kUnknown) {
        refusals.Add(borrowed.thread, Verdict::kUnknownWait);
        PauseBetweenAttempts();
        continue;
      }
      auto thread = TracedThread::Seize(borrowed.thread);
      if (!thread.ok()) {
        last = thread.error();
        if (last.code == Code::kPermission) return last;
        continue;
      }
      const std::optional<UsedTime> used_time = UsedTime::Measure(pid, borrowed.thread);
      const process::Urgent urgent;
      const std::int64_t stopped_ns = MonotonicNs();
      auto tried = TryThread(*thread, pid, points, filter, used_time, sleep_us, deadline);
      borrowed.held_us = std::max(borrowed.held_us, (MonotonicNs() - stopped_ns) / 1000);
      if (tried.ok() && MayBorrow(tried->verdict)) {
        if (tried->outcome == Outcome::kStuck) return StuckError(borrowed.thread);
        borrowed.call_stack_pointer = tried->call_stack_pointer;
        return borrowed;
      }
      if (!tried.ok()) last = tried.error();
      if (tried.ok()) refusals.Add(borrowed.thread, tried->verdict);
      PauseBetweenAttempts();
      // Another thread may be there that does not have the same trouble.
      if (tried.ok() && MayLast(tried->verdict)) break;
    }
    // All were refused for something that may last: no reason to stop them thousands of times.
    if (refusals.MayLastFor(order.front())) SleepUs(kPauseWhenAllRefusedUs);
    auto status = process::ReadStatus(pid);
    if (!status.ok() || status->state == 'T') return last;
    // Libraries and threads' stacks come and go meanwhile.
    if (auto maps = process::Maps::Read(pid); maps.ok()) points.rules.maps = std::move(*maps);
  }
  const std::string why = refusals.Text().empty() ? last.message : refusals.Text();
  return Error{deadline.passed() ? Code::kTimeout : Code::kFailed,
               "found no moment to enter process " + std::to_string(pid) + " safely (" +
                   std::to_string(borrowed.attempts) + " attempts): " + why,
               "try again, or start the program with `probing run`"};
}

Result<void> TakeBackIfStuck(pid_t pid, const Borrowed& borrowed, const EntryPoints& points,
                             const Deadline& deadline) {
  const auto in_our_call = [&](std::uint64_t stack_pointer) {
    return borrowed.call_stack_pointer - stack_pointer < kDeepestCall;
  };
  auto call = PeekSyscall(pid, borrowed.thread);
  if (!call.ok() || call->number < 0 || !in_our_call(call->stack_pointer)) return {};
  ASSIGN_OR_RETURN(TracedThread thread, TracedThread::Seize(borrowed.thread));
  RETURN_IF_ERROR(thread.Interrupt(deadline));
  ASSIGN_OR_RETURN(arch::Registers registers, thread.ReadRegisters());
  if (!WaitsInOurCall(registers, borrowed.call_stack_pointer)) return {};
  registers.set_ip(points.trampoline.address);
  registers.set_sp(borrowed.call_stack_pointer + arch::kReturnPopsBytes);  // as if the call had returned
  registers.set_syscall(-1);
  RETURN_IF_ERROR(thread.WriteRegisters(registers));
  RETURN_IF_ERROR(thread.Detach());
  return StuckError(borrowed.thread);
}

}  // namespace probing::inject
