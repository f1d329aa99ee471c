#include "process/traced_thread.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "arch/machine.h"
#include "base/file.h"
#include "process/blocked_call.h"
#include "process/memory.h"
#include "process/status.h"

// Newer than the oldest headers we build with.
#ifndef PTRACE_GETSIGMASK
#define PTRACE_GETSIGMASK 0x420a
#define PTRACE_SETSIGMASK 0x420b
#endif
#ifndef PTRACE_PEEKSIGINFO
#define PTRACE_PEEKSIGINFO 0x4209
#endif
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

namespace probing::process {
namespace {

// A stop mostly comes this soon, and being woken up would take longer than that. Not for ever: we
// may be on the very core that the thread needs.
constexpr std::int64_t kSpinNs = 60'000;
constexpr std::int64_t kLongestPauseNs = 1'000'000;

constexpr std::uint32_t kSharedQueue =
    1;  // PTRACE_PEEKSIGINFO_SHARED: sent to the process, not to the thread
constexpr int kPeekedSignals = 16;

sigset_t ChildSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  return set;
}

Result<void> Ptrace(int request, pid_t tid, std::uint64_t address, std::uint64_t data, const char* what) {
  if (ptrace(static_cast<__ptrace_request>(request), tid, address, data) == -1) {
    return ErrnoError("ptrace " + std::string(what) + " of thread " + std::to_string(tid));
  }
  return {};
}

// A program of ours, by its file or, when that was replaced meanwhile, by its name.
bool IsOneOfOurs(pid_t pid) {
  if (const auto status = ReadStatus(pid); status.ok() && status->name.starts_with("probing")) return true;
  struct stat ours = {}, theirs = {};
  return stat("/proc/self/exe", &ours) == 0 &&
         stat(("/proc/" + std::to_string(pid) + "/exe").c_str(), &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

std::uint64_t ToData(void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

bool WaitForOurOtherTracers(pid_t tid) {
  constexpr std::int64_t kLongestMs = 1000;  // on a busy machine one of ours may not run meanwhile
  const Deadline deadline = Deadline::AfterMs(kLongestMs);
  while (!deadline.passed()) {
    const auto status = ReadStatus(tid);
    if (!status.ok() || status->tracer == 0) return true;
    if (!IsOneOfOurs(status->tracer)) return false;
    SleepUs(50);
  }
  return false;
}

Result<TracedThread> TracedThread::Seize(pid_t tid) {
  constexpr int kAttempts = 4;  // each of which another one of ours may be quicker at
  const sigset_t child = ChildSignal();
  pthread_sigmask(SIG_BLOCK, &child, nullptr);
  for (int attempt = 1;; ++attempt) {
    auto seized = Ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD, "seize");
    if (seized.ok()) return TracedThread(tid);
    const bool may_be_traced = seized.error().code == Code::kPermission;
    if (!may_be_traced || attempt == kAttempts || !WaitForOurOtherTracers(tid))
      return std::move(seized.error());
  }
}

TracedThread::TracedThread(TracedThread&& other) noexcept
    : tid_(other.tid_),
      attached_(std::exchange(other.attached_, false)),
      stopped_(other.stopped_),
      pending_signal_(other.pending_signal_),
      waited_(other.waited_),
      times_run_(other.times_run_) {}

TracedThread::~TracedThread() {
  if (!attached_) return;
  if (!stopped_ && !Interrupt(Deadline::AfterMs(1000)).ok()) return;  // the kernel detaches when we exit
  (void)Detach();
}

Result<TracedThread::Stop> TracedThread::Wait(const Deadline& deadline) {
  const Deadline spin = Deadline::AfterNs(kSpinNs);
  while (true) {
    int status = 0;
    const pid_t got = waitpid(tid_, &status, __WALL | WNOHANG);
    if (got == 0) {
      if (deadline.passed()) {
        return Error{Code::kTimeout, "thread " + std::to_string(tid_) + " did not stop in time",
                     "it may be in an uninterruptible wait (D state): try again"};
      }
      if (spin.passed()) {
        // Every stop of a traced thread sends us SIGCHLD, which Seize() blocked for this. It is only
        // a reason to look: one may be left from another thread's stop, and when several threads of
        // ours wait here, one's may be taken by another or be merged with its own.
        const timespec pause{0, static_cast<long>(std::min(deadline.left_ns(), kLongestPauseNs))};
        const sigset_t child = ChildSignal();
        sigtimedwait(&child, nullptr, &pause);
      }
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
      attached_ = false;
      return Stop::kGone;
    }
    stopped_ = true;
    const int signal = WSTOPSIG(status);
    const int event = status >> 16;
    if (event == PTRACE_EVENT_STOP) return signal == SIGTRAP ? Stop::kInterrupt : Stop::kJobControl;
    if (event != 0) return Stop::kEvent;
    if (signal == (SIGTRAP | 0x80)) return Stop::kSyscall;
    pending_signal_ = signal;
    return Stop::kSignal;
  }
}

Result<void> TracedThread::Resume(int request, int signal) {
  RETURN_IF_ERROR(Ptrace(request, tid_, 0, static_cast<std::uint64_t>(signal), "resume"));
  stopped_ = false;
  pending_signal_ = 0;
  waited_ = {};
  return {};
}

Result<void> TracedThread::RunUntil(int request, Stop wanted, const Deadline& deadline) {
  while (true) {
    ASSIGN_OR_RETURN(const Stop stop, Wait(deadline));
    if (stop == wanted) return {};
    if (stop == Stop::kGone) {
      return Error{Code::kNotFound, "thread " + std::to_string(tid_) + " ended meanwhile", ""};
    }
    if (stop == Stop::kJobControl) {
      return Error{Code::kFailed, "the process is stopped by a signal",
                   "let it run with `kill -CONT`, then try again"};
    }
    RETURN_IF_ERROR(Resume(request, pending_signal_));
  }
}

// For ReadRegisters(): what the kernel forgets when it stops the thread.
void TracedThread::NoteCall() {
  if constexpr (!arch::kStopHidesCall) return;
  waited_ = {};
  times_run_ = ReadTimesRun(tid_, tid_);
  const auto call = ReadBlockedCall(tid_, tid_);
  if (call.ok() && call->number >= 0)
    waited_ = {call->number, call->arguments, call->stack_pointer, call->instruction_pointer};
}

Result<void> TracedThread::Interrupt(const Deadline& deadline) {
  NoteCall();
  RETURN_IF_ERROR(Ptrace(PTRACE_INTERRUPT, tid_, 0, 0, "interrupt"));
  return RunUntil(PTRACE_CONT, Stop::kInterrupt, deadline);
}

Result<void> TracedThread::Hold(const Deadline& deadline) {
  NoteCall();
  RETURN_IF_ERROR(Ptrace(PTRACE_INTERRUPT, tid_, 0, 0, "interrupt"));
  auto held = RunUntil(PTRACE_CONT, Stop::kInterrupt, deadline);
  if (!held.ok() && stopped_) return {};  // RunUntil() lets go of nothing that job control holds
  return held;
}

Result<void> TracedThread::RunToSyscall(const Deadline& deadline) {
  RETURN_IF_ERROR(Resume(PTRACE_SYSCALL, 0));
  return RunUntil(PTRACE_SYSCALL, Stop::kSyscall, deadline);
}

Result<void> TracedThread::RunToSignalPoint(const Deadline& deadline) {
  RETURN_IF_ERROR(Ptrace(PTRACE_INTERRUPT, tid_, 0, 0, "interrupt"));
  RETURN_IF_ERROR(Resume(PTRACE_CONT, 0));
  return RunUntil(PTRACE_CONT, Stop::kInterrupt, deadline);
}

Result<void> TracedThread::Continue() { return Resume(PTRACE_CONT, pending_signal_); }

Result<void> TracedThread::Detach() {
  attached_ = false;
  return Resume(PTRACE_DETACH, pending_signal_);
}

Result<arch::Registers> TracedThread::ReadRegisters() const {
  arch::Registers registers;
  for (const arch::RegisterPart& part : registers.Parts()) {
    iovec area{part.bytes.data(), part.bytes.size()};
    RETURN_IF_ERROR(Ptrace(PTRACE_GETREGSET, tid_, static_cast<std::uint64_t>(part.note), ToData(&area),
                           "read registers"));
    if (area.iov_len != part.bytes.size())
      return Error{Code::kFailed, "thread " + std::to_string(tid_) + " runs 32-bit code", ""};
  }
  // Woken once, for the stop: it has been in that very call all the time.
  const auto times_run = waited_.number >= 0 ? ReadTimesRun(tid_, tid_) : std::nullopt;
  const bool is_same_wait =
      waited_.number >= 0 && (!times_run_ || (times_run && *times_run <= *times_run_ + 1));
  registers.Recognise(is_same_wait ? waited_ : arch::WaitedCall{});
  if (arch::kStopHidesCall && registers.syscall() < 0 && registers.result() == -EINTR)
    registers.Recognise(AskForCall(registers));
  return registers;
}

// Of a call that was interrupted before NoteCall() could see it. The kernel still has its first argument, and
// shows it in /proc while it believes the thread to be in a call. Only of descriptors for which a mere stop
// reports EINTR: the same registers are seen for an instant when a signal handler has returned.
arch::WaitedCall TracedThread::AskForCall(const arch::Registers& registers) const {
  const auto instruction =
      ProcessMemory(tid_).ReadValue(RemotePtr<std::array<char, arch::kSyscallInstruction.size()>>{
          registers.ip() - arch::kSyscallInstruction.size()});
  if (!instruction.ok() ||
      std::string_view(instruction->data(), instruction->size()) != arch::kSyscallInstruction)
    return {};
  const auto believe = [&](std::int32_t number) {
    iovec area{&number, sizeof(number)};
    return Ptrace(PTRACE_SETREGSET, tid_, arch::kCallNote, ToData(&area), "write the system call").ok();
  };
  if (!believe(static_cast<std::int32_t>(registers.next_syscall()))) return {};
  const auto call = ReadBlockedCall(tid_, tid_);
  if (!believe(-1) || !call.ok() || call->number < 0) return {};
  const auto file = ReadLink("/proc/" + std::to_string(tid_) + "/fd/" + std::to_string(call->arguments[0]));
  if (!file.ok() || !(file->starts_with("socket:") || file->starts_with("anon_inode:"))) return {};
  return {call->number, call->arguments, call->stack_pointer, call->instruction_pointer};
}

Result<void> TracedThread::WriteRegisters(const arch::Registers& registers) const {
  arch::Registers copy = registers;
  copy.PrepareForKernel();
  for (const arch::RegisterPart& part : copy.Parts()) {
    if (!part.written) continue;
    iovec area{part.bytes.data(), part.bytes.size()};
    RETURN_IF_ERROR(Ptrace(PTRACE_SETREGSET, tid_, static_cast<std::uint64_t>(part.note), ToData(&area),
                           "write registers"));
  }
  return {};
}

Result<arch::VectorState> TracedThread::ReadVectorState() const {
  arch::VectorState state;
  for (const int note : arch::kVectorStateNotes) {
    std::vector<std::byte> bytes(arch::kMaxVectorStateBytes);
    iovec area{bytes.data(), bytes.size()};
    auto read = Ptrace(PTRACE_GETREGSET, tid_, static_cast<std::uint64_t>(note), ToData(&area),
                       "read vector registers");
    // Only the first is there on every machine.
    if (!read.ok() && !state.empty()) continue;
    RETURN_IF_ERROR(read);
    bytes.resize(area.iov_len);
    state.push_back({note, std::move(bytes)});
  }
  return state;
}

Result<std::uint64_t> TracedThread::ReadSignalMask() const {
  std::uint64_t mask = 0;
  RETURN_IF_ERROR(Ptrace(PTRACE_GETSIGMASK, tid_, sizeof(mask), ToData(&mask), "read signal mask"));
  return mask;
}

Result<void> TracedThread::WriteSignalMask(std::uint64_t mask) const {
  return Ptrace(PTRACE_SETSIGMASK, tid_, sizeof(mask), ToData(&mask), "write signal mask");
}

Result<bool> TracedThread::HasDeliverableSignal() const {
  ASSIGN_OR_RETURN(const std::uint64_t blocked, ReadSignalMask());
  for (const std::uint32_t flags : {0U, kSharedQueue}) {
    struct Arguments {  // struct __ptrace_peeksiginfo_args
      std::uint64_t first;
      std::uint32_t flags;
      std::int32_t count;
    } arguments{0, flags, kPeekedSignals};
    std::array<siginfo_t, kPeekedSignals> signals{};
    const auto request = static_cast<__ptrace_request>(PTRACE_PEEKSIGINFO);
    const long count = ptrace(request, tid_, &arguments, signals.data());
    if (count < 0) return ErrnoError("ptrace peek signals of thread " + std::to_string(tid_));
    for (long i = 0; i < count; ++i) {
      const int number = signals[static_cast<std::size_t>(i)].si_signo;
      if (number >= 1 && number <= 64 && (blocked >> (number - 1) & 1U) == 0) return true;
    }
  }
  return false;
}

Result<bool> TracedThread::InRestartableSequence(std::uint64_t instruction_pointer) const {
  struct Configuration {  // struct ptrace_rseq_configuration
    std::uint64_t rseq_address;
    std::uint32_t rseq_size, signature, flags, padding;
  } configuration{};
  const auto request = static_cast<__ptrace_request>(PTRACE_GET_RSEQ_CONFIGURATION);
  if (ptrace(request, tid_, sizeof(configuration), &configuration) == -1) return false;
  if (configuration.rseq_address == 0) return false;
  // struct rseq: cpu_id_start, cpu_id, then the address of the current sequence's descriptor.
  const ProcessMemory memory(tid_);
  ASSIGN_OR_RETURN(const std::uint64_t descriptor,
                   memory.ReadValue(RemotePtr<std::uint64_t>{configuration.rseq_address + 8}));
  if (descriptor == 0) return false;
  struct Sequence {  // struct rseq_cs
    std::uint32_t version, flags;
    std::uint64_t start, length, abort;
  };
  ASSIGN_OR_RETURN(const Sequence sequence, memory.ReadValue(RemotePtr<Sequence>{descriptor}));
  return instruction_pointer - sequence.start < sequence.length;
}

}  // namespace probing::process
