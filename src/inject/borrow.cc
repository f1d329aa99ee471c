#include "inject/borrow.h"

#include <pthread.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "process/status.h"
#include "process/urgent.h"

namespace probing::inject {
namespace {

using process::TracedThread;

constexpr std::size_t kMaxExtendedBytes = 16 * 1024;  // AMX needs 11 KiB
constexpr std::size_t kHelperStackBytes = 1 << 20;    // room for static TLS and dlopen
constexpr std::size_t kMaxThreadsLookedAt = 512;
constexpr int kAttemptsPerRound = 8;
constexpr std::uint64_t kDirectionFlag = 0x400;
constexpr std::uint64_t kTrapFlag = 0x100;
constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

// Threads in the order in which they should be tried: those that wait anyway come first.
std::vector<pid_t> RankThreads(pid_t pid) {
  auto threads = process::ListThreads(pid);
  if (!threads.ok()) return {};
  constexpr int kRunning = 1;  // between kRepeatable and kTimed
  std::vector<std::pair<int, pid_t>> ranked;
  for (const pid_t tid : std::span(*threads).first(std::min(threads->size(), kMaxThreadsLookedAt))) {
    auto call = PeekSyscall(pid, tid);
    if (!call.ok()) continue;  // ended, or already dead and waiting for the others
    const Wait wait = Classify(*call);
    if (call->number >= 0 && wait == Wait::kRepeatable) return {tid};
    ranked.emplace_back(call->number < 0 ? kRunning : 1 + static_cast<int>(wait), tid);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<pid_t> order;
  for (const auto& [rank, tid] : ranked) order.push_back(tid);
  return order;
}

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
Result<void> ReturnByHand(TracedThread& thread, const EntryPoints& points, const user_regs_struct& original,
                          std::uint64_t signal_mask, const Deadline& deadline) {
  while (true) {
    RETURN_IF_ERROR(thread.RunToSyscall(deadline));
    ASSIGN_OR_RETURN(user_regs_struct registers, thread.ReadRegisters());
    if (registers.orig_rax == SYS_rt_sigreturn) {
      registers.orig_rax = static_cast<std::uint64_t>(-1);  // skip it this time…
      registers.rip = points.trampoline.address;            // …but come back to it if nobody says otherwise
      RETURN_IF_ERROR(thread.WriteRegisters(registers));
      break;
    }
    RETURN_IF_ERROR(thread.RunToSyscall(deadline));
  }
  RETURN_IF_ERROR(thread.RunToSignalPoint(deadline));
  RETURN_IF_ERROR(thread.WriteRegisters(original));
  return thread.WriteSignalMask(signal_mask);
}

// After the thread was sent to start the helper. The helper inherits the mask: no signal of the
// job's may be handled there; signals for this thread wait until the way back unblocks them.
Result<void> FollowThrough(TracedThread& thread, const EntryPoints& points, Verdict verdict,
                           const user_regs_struct& original, std::uint64_t signal_mask,
                           const Deadline& deadline) {
  RETURN_IF_ERROR(thread.WriteSignalMask(kAllSignals));
  if (verdict == Verdict::kTimedWait) {
    RETURN_IF_ERROR(ReturnByHand(thread, points, original, signal_mask, deadline));
  }
  return thread.Detach();
}

enum class Outcome : std::uint8_t { kStarted, kNotSafe };

Result<Outcome> TryThread(TracedThread& thread, pid_t pid, const EntryPoints& points, std::uint64_t sleep_us,
                          const Deadline& deadline) {
  static const pthread_attr_t attributes = DetachedAttributes();
  const process::ProcessMemory memory(pid);

  RETURN_IF_ERROR(thread.Interrupt(deadline));
  ASSIGN_OR_RETURN(const user_regs_struct original, thread.ReadRegisters());
  user_regs_struct resume;
  ASSIGN_OR_RETURN(const Verdict verdict, Judge(thread, points.rules, pid, original, resume));
  if (verdict == Verdict::kUnsafe) {
    // A wait that Judge would have had to repeat is restarted by the kernel itself, except
    // those that report EINTR.
    if (resume.rip != original.rip && static_cast<std::int64_t>(original.rax) == -EINTR) {
      RETURN_IF_ERROR(thread.WriteRegisters(resume));
    }
    RETURN_IF_ERROR(thread.Detach());
    return Outcome::kNotSafe;
  }

  ASSIGN_OR_RETURN(const SavedState state, SaveState(thread, resume));
  WayBack way_back(state, points.trampoline, sizeof(attributes) + 64);
  const auto attributes_at = way_back.Add(std::as_bytes(std::span(&attributes, 1)));
  const std::uint64_t no_thread = 0;
  const auto thread_at = way_back.Add(std::as_bytes(std::span(&no_thread, 1)));
  RETURN_IF_ERROR(memory.Write({way_back.stack_pointer()}, way_back.bytes()));

  user_regs_struct call = original;
  call.rip = points.pthread_create.address;
  call.rsp = way_back.stack_pointer();
  call.rdi = thread_at.address;
  call.rsi = attributes_at.address;
  call.rdx = points.usleep.address;
  call.rcx = sleep_us;
  call.rax = 0;
  call.orig_rax = static_cast<std::uint64_t>(-1);  // no system call to restart
  call.eflags &= ~(kDirectionFlag | kTrapFlag);
  RETURN_IF_ERROR(thread.WriteRegisters(call));
  // From here on the thread comes back by itself and the helper starts, so nothing below may lead
  // to a second try: what fails here shows when the helper is looked for.
  (void)FollowThrough(thread, points, verdict, original, state.signal_mask, deadline);
  return Outcome::kStarted;
}

}  // namespace

Result<Syscall> PeekSyscall(pid_t pid, pid_t tid) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/syscall"));
  Syscall call;
  if (text.starts_with("running")) return call;
  std::array<unsigned long long, 6> arguments{};
  long long number = -1;
  std::sscanf(text.c_str(), "%lld %llx %llx %llx %llx %llx %llx", &number, &arguments[0], &arguments[1],
              &arguments[2], &arguments[3], &arguments[4], &arguments[5]);
  call.number = number;
  std::copy(arguments.begin(), arguments.end(), call.arguments.begin());
  return call;
}

Result<SavedState> SaveState(const TracedThread& thread, const user_regs_struct& resume) {
  SavedState state;
  state.registers = resume;
  state.extended.resize(kMaxExtendedBytes);
  ASSIGN_OR_RETURN(const std::size_t size, thread.ReadExtendedState(state.extended));
  state.extended.resize(size);
  ASSIGN_OR_RETURN(state.signal_mask, thread.ReadSignalMask());
  return state;
}

Result<Borrowed> StartHelper(pid_t pid, EntryPoints points, std::uint64_t sleep_us,
                             const Deadline& deadline) {
  Borrowed borrowed;
  Error last{Code::kFailed, "no thread of process " + std::to_string(pid) + " could be looked at", ""};
  while (!deadline.passed()) {
    const std::vector<pid_t> order = RankThreads(pid);
    if (order.empty()) break;
    for (int attempt = 0; attempt < kAttemptsPerRound; ++attempt) {
      borrowed.thread = order[static_cast<std::size_t>(attempt) % order.size()];
      ++borrowed.attempts;
      auto thread = TracedThread::Seize(borrowed.thread);
      if (!thread.ok()) {
        last = thread.error();
        if (last.code == Code::kPermission) return last;
        continue;
      }
      const process::Urgent urgent;
      const std::int64_t stopped_ns = MonotonicNs();
      auto outcome = TryThread(*thread, pid, points, sleep_us, deadline);
      borrowed.held_us = std::max(borrowed.held_us, (MonotonicNs() - stopped_ns) / 1000);
      if (outcome.ok() && *outcome == Outcome::kStarted) return borrowed;
      if (!outcome.ok()) last = outcome.error();
      // Never the same rhythm twice, never spinning: the target should get out of there.
      SleepUs(20 + (MonotonicNs() >> 8) % 100);
    }
    auto status = process::ReadStatus(pid);
    if (!status.ok() || status->state == 'T') return last;
    // Libraries and threads' stacks come and go meanwhile.
    if (auto maps = process::Maps::Read(pid); maps.ok()) points.rules.maps = std::move(*maps);
  }
  return Error{deadline.passed() ? Code::kTimeout : Code::kFailed,
               "found no moment to enter process " + std::to_string(pid) + " safely (" +
                   std::to_string(borrowed.attempts) + " attempts): " + last.message,
               "try again, or start the program with `probing run`"};
}

}  // namespace probing::inject
