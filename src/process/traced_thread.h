// One thread of a target under ptrace. The only place that calls ptrace.
//
// Leaving the scope detaches: a stopped thread is set running again, a running one is stopped
// for that first. If this process dies instead, the kernel does the same. What is written into
// the thread's registers is not put back: whoever writes them must leave a state from which the
// thread can go on by itself.
//
// Lives on one stack and in one thread: ptrace belongs to the thread that seized. That thread has
// SIGCHLD blocked from then on: it is how the kernel announces stops.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/registers.h"
#include "arch/signal_frame.h"
#include "base/clock.h"
#include "base/result.h"

namespace probing::process {

// A thread has one tracer at a time, and a sampler or a backtrace of ours may be that for some microseconds.
// Waits until it is not, at most a second. False when somebody else traces the thread, or ours does not end.
bool WaitForOurOtherTracers(pid_t tid);

class TracedThread {
 public:
  // Attaches without stopping, as soon as no other look of ours is at the thread.
  static Result<TracedThread> Seize(pid_t tid);

  TracedThread(TracedThread&& other) noexcept;
  TracedThread& operator=(TracedThread&&) = delete;
  ~TracedThread();

  pid_t tid() const { return tid_; }

  // Stops the thread. Signals that arrive while we wait are passed on to it. kFailed when it is
  // stopped by job control (SIGSTOP): such a thread cannot be made to run.
  Result<void> Interrupt(const Deadline& deadline);

  // The same for somebody who only wants to look: a thread stopped by job control counts as
  // stopped and stays so after Detach(). It must not be made to run.
  Result<void> Hold(const Deadline& deadline);

  // Lets it run until it enters or leaves a system call.
  Result<void> RunToSyscall(const Deadline& deadline);

  // Lets it finish the system call it is in, up to the point where the kernel would deliver
  // signals and restart system calls, and stops it there.
  Result<void> RunToSignalPoint(const Deadline& deadline);

  // Lets it run on. It stays attached.
  Result<void> Continue();

  // Lets go. The thread runs on with the registers it has.
  Result<void> Detach();

  // REQUIRES for all below: the thread is stopped.
  Result<arch::Registers> ReadRegisters() const;
  Result<void> WriteRegisters(const arch::Registers& registers) const;
  Result<arch::VectorState> ReadVectorState() const;
  Result<std::uint64_t> ReadSignalMask() const;
  Result<void> WriteSignalMask(std::uint64_t mask) const;

  // True when a signal waits that the thread does not block: it will run a handler, or die, first.
  Result<bool> HasDeliverableSignal() const;

  // True when the instruction pointer is inside a restartable sequence, which the kernel
  // would abort if it knew that somebody interfered. False where the kernel cannot tell.
  Result<bool> InRestartableSequence(std::uint64_t instruction_pointer) const;

 private:
  explicit TracedThread(pid_t tid) : tid_(tid) {}

  enum class Stop : std::uint8_t { kInterrupt, kJobControl, kSignal, kSyscall, kEvent, kGone };
  Result<Stop> Wait(const Deadline& deadline);
  // Resumes with `request` and waits for `wanted`, passing signals on.
  Result<void> RunUntil(int request, Stop wanted, const Deadline& deadline);
  Result<void> Resume(int request, int signal);
  void NoteCall();
  arch::WaitedCall AskForCall(const arch::Registers& registers) const;

  pid_t tid_;
  bool attached_ = true;
  bool stopped_ = false;
  int pending_signal_ = 0;  // to be delivered when it resumes
  // Just before the stop; only where a stop hides the call.
  arch::WaitedCall waited_;
  std::optional<std::uint64_t> times_run_;
};

}  // namespace probing::process
