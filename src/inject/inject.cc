#include "inject/inject.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>

#include "arch/loader_stub.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "inject/borrow.h"
#include "inject/entry_points.h"
#include "inject/leftovers.h"
#include "inject/library_file.h"
#include "process/status.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace probing::inject {
namespace {

using process::ProcessMemory;
using process::RemoteAddress;
using process::TracedThread;

constexpr std::uint64_t kPageBytes = arch::kMaxPageBytes;  // whatever pages the kernel uses
constexpr std::uint64_t kHelperSleepUs = 30'000'000;       // far longer than needed, gone soon if we die

// The flags that this kernel wants for a memfd with code in it.
std::uint64_t MemfdFlags() {
  constexpr unsigned kExecutable = MFD_CLOEXEC | MFD_EXEC;  // Linux 6.3 asks for it
  const ScopedFd probe(static_cast<int>(syscall(SYS_memfd_create, "probing", kExecutable)));
  return probe.valid() ? kExecutable : MFD_CLOEXEC;
}

// The library file, followed by a page with the stub and a page with its LoaderCall.
struct Parcel {
  std::string bytes;
  std::uint64_t stub_offset = 0;
  std::uint64_t mailbox_offset = 0;
};

Result<Parcel> Pack(const std::string& path) {
  ASSIGN_OR_RETURN(std::string library, ReadFile(path));
  RETURN_IF_ERROR(CheckLibrary(path, library));
  Parcel parcel;
  parcel.stub_offset = (library.size() + kPageBytes - 1) / kPageBytes * kPageBytes;
  parcel.mailbox_offset = parcel.stub_offset + arch::kStubPageBytes;
  parcel.bytes = std::move(library);
  parcel.bytes.resize(parcel.mailbox_offset + arch::kMailboxBytes);
  std::memcpy(&parcel.bytes[parcel.stub_offset], arch::LoaderStub().data(), arch::LoaderStub().size());
  return parcel;
}

bool SleepsFor(const ProcessMemory& memory, const Syscall& call, std::uint64_t sleep_us) {
  std::uint64_t duration_at = 0;
  if (call.number == SYS_nanosleep) duration_at = call.arguments[0];
  if (call.number == SYS_clock_nanosleep) duration_at = call.arguments[2];
  if (duration_at == 0) return false;
  auto duration = memory.ReadValue(process::RemotePtr<timespec>{duration_at});
  return duration.ok() &&
         static_cast<std::uint64_t>(duration->tv_sec * 1'000'000 + duration->tv_nsec / 1000) == sleep_us;
}

// The helper is known by the odd length of its sleep. Threads that were there before are looked
// at only now and then: there may be hundreds, but a number may also have been given out again.
Result<pid_t> FindHelper(pid_t pid, const std::vector<pid_t>& before, std::uint64_t sleep_us,
                         const Borrowed& borrowed, const EntryPoints& points, const Deadline& deadline) {
  constexpr int kLookAtAll = 32;  // rounds, about a millisecond
  const ProcessMemory memory(pid);
  Deadline patience = Deadline::AfterMs(kPatienceMs);
  for (int round = 1; !deadline.passed() && process::IsAlive(pid); ++round) {
    ASSIGN_OR_RETURN(const auto threads, process::ListThreads(pid));
    for (const pid_t tid : threads) {
      if (round % kLookAtAll != 0 && std::binary_search(before.begin(), before.end(), tid)) continue;
      auto call = PeekSyscall(pid, tid);
      if (call.ok() && SleepsFor(memory, *call, sleep_us)) return tid;
    }
    if (patience.passed() && round % kLookAtAll == 0) {
      RETURN_IF_ERROR(TakeBackIfStuck(pid, borrowed, points, deadline));
      patience = Deadline::AfterMs(kPatienceMs);
    }
    SleepUs(30);
  }
  return Error{Code::kTimeout, "the target could not start a thread",
               "its limit of processes (ulimit -u, cgroup pids.max) may be reached"};
}

// The helper thread while we steer it. Whatever happens, it ends by returning from usleep.
class Helper {
 public:
  static Result<Helper> Attach(pid_t pid, pid_t tid, const EntryPoints& points, const Deadline& deadline) {
    ASSIGN_OR_RETURN(TracedThread thread, TracedThread::Seize(tid));
    RETURN_IF_ERROR(thread.Interrupt(deadline));
    ASSIGN_OR_RETURN(arch::Registers registers, thread.ReadRegisters());
    registers.set_result(0);  // usleep is over
    registers.set_syscall(-1);
    ASSIGN_OR_RETURN(const SavedState state, SaveState(thread, registers));
    WayBack way_back(state, points.trampoline, 64);
    Helper helper(std::move(thread), pid, points, registers, way_back.stack_pointer());
    helper.name_at_ = way_back.Add(std::as_bytes(std::span(kMemfdName.data(), kMemfdName.size() + 1)));
    RETURN_IF_ERROR(helper.memory_.Write({way_back.stack_pointer()}, way_back.bytes()));
    // If we stop caring now, its sleep is over and it ends.
    RETURN_IF_ERROR(helper.thread_.WriteRegisters(registers));
    return helper;
  }

  RemoteAddress name() const { return name_at_; }
  pid_t tid() const { return thread_.tid(); }

  Result<std::uint64_t> Syscall(std::uint64_t number, std::array<std::uint64_t, 6> arguments,
                                const Deadline& deadline) {
    arch::Registers registers = Entry(points_->syscall_instruction);
    registers.set_next_syscall(static_cast<std::int64_t>(number));
    for (std::size_t i = 0; i < arguments.size(); ++i) registers.set_syscall_argument(i, arguments[i]);
    RETURN_IF_ERROR(thread_.WriteRegisters(registers));
    RETURN_IF_ERROR(thread_.RunToSyscall(deadline));  // enters
    RETURN_IF_ERROR(thread_.RunToSyscall(deadline));  // leaves
    ASSIGN_OR_RETURN(const arch::Registers after, thread_.ReadRegisters());
    RETURN_IF_ERROR(thread_.WriteRegisters(base_));
    const auto result = after.result();
    if (result < 0 && result > -4096) {
      return ErrnoError("system call " + std::to_string(number) + " in the target",
                        static_cast<int>(-result));
    }
    return static_cast<std::uint64_t>(result);
  }

  // Starts the stub and lets go of the thread.
  Result<void> Run(RemoteAddress stub, RemoteAddress call) {
    arch::Registers registers = Entry(stub);
    registers.set_argument(0, call.address);
    RETURN_IF_ERROR(thread_.WriteRegisters(registers));
    return thread_.Detach();
  }

 private:
  Helper(TracedThread thread, pid_t pid, const EntryPoints& points, const arch::Registers& base,
         std::uint64_t stack_pointer)
      : thread_(std::move(thread)),
        memory_(pid),
        points_(&points),
        base_(base),
        stack_pointer_(stack_pointer) {}

  arch::Registers Entry(RemoteAddress code) const {
    arch::Registers registers = base_;
    registers.EnterFunction(code.address, stack_pointer_, points_->trampoline.address);
    return registers;
  }

  TracedThread thread_;
  ProcessMemory memory_;
  const EntryPoints* points_;
  arch::Registers base_;
  std::uint64_t stack_pointer_;
  RemoteAddress name_at_;
};

// Waits for the stub's answer in the last page of the memfd.
Result<void> AwaitAnswer(int memfd, const Parcel& parcel, const std::string& library_path,
                         const Deadline& deadline) {
  constexpr std::int64_t kAnswerAfterCancelMs = 100;
  arch::LoaderCall answer;
  std::optional<Deadline> cancelled;
  while (true) {
    const ssize_t n = pread(memfd, &answer, sizeof(answer), static_cast<off_t>(parcel.mailbox_offset));
    if (n == static_cast<ssize_t>(sizeof(answer)) && answer.done == 1) break;
    if (cancelled && cancelled->passed()) {
      return Error{Code::kTimeout, "the target did not load the library in time; the load was cancelled",
                   "another of its threads may hold the loader's lock: look with `probing backtrace`"};
    }
    if (!cancelled && deadline.passed()) {
      // The loader is still at it or has not begun. Without its magic number the file will not
      // be loaded any more by the time it gets there. If it was already loaded, the answer comes soon.
      (void)!pwrite(memfd, "\0\0\0\0", SELFMAG, 0);
      cancelled = Deadline::AfterMs(kAnswerAfterCancelMs);
    }
    SleepUs(30);
  }
  if (answer.handle != 0) return {};
  answer.error[sizeof(answer.error) - 1] = '\0';
  return Error{Code::kFailed, "the target could not load " + library_path + ": " + answer.error,
               "check that the library fits the target's C library"};
}

// A name under which no library was loaded yet: for one that it knows, the loader takes what is there
// already. A probe that had to stay mapped after its eject is still known by the path of its descriptor, so
// the number of the memory file is written into the path, in segments that lead nowhere ("/" or "/."). They
// also make it longer than the name that takes its place (LoaderCall::name).
std::string UnusedPath(std::uint64_t fd, std::uint64_t inode) {
  constexpr unsigned kBits = 19;  // what LoaderCall::path has room for
  std::string path = "/proc/self/fd";
  for (unsigned bit = 0; bit < kBits; ++bit) path += (inode >> bit & 1) != 0 ? "/." : "/";
  return path + "/" + std::to_string(fd);
}

arch::LoaderCall MakeCall(const Helper& helper, const EntryPoints& points, std::uint64_t fd,
                          std::uint64_t stub, std::uint64_t inode) {
  arch::LoaderCall call;
  call.dlopen = points.dlopen.address;
  call.dlerror = points.dlerror.address;
  call.munmap = points.munmap.address;
  call.flags = points.dlopen_flags;
  call.stub_address = stub;
  call.fd = fd;
  call.helper_thread = static_cast<std::uint64_t>(helper.tid());
  call.pid_namespace = OwnPidNamespace();
  std::snprintf(call.path, sizeof(call.path), "%s", UnusedPath(fd, inode).c_str());
  std::snprintf(call.name, sizeof(call.name), "%s", std::string(kMemfdPath).c_str());
  return call;
}

// Maps the stub and behind it, shared, the page of its LoaderCall. Returns where.
Result<std::uint64_t> MapStub(Helper& helper, std::uint64_t fd, const Parcel& parcel,
                              const Deadline& deadline) {
  ASSIGN_OR_RETURN(const std::uint64_t stub,
                   helper.Syscall(SYS_mmap,
                                  {0, arch::kStubPageBytes + arch::kMailboxBytes, PROT_READ | PROT_EXEC,
                                   MAP_PRIVATE, fd, parcel.stub_offset},
                                  deadline));
  auto mailbox = helper.Syscall(SYS_mmap,
                                {stub + arch::kStubPageBytes, arch::kMailboxBytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_FIXED, fd, parcel.mailbox_offset},
                                deadline);
  if (mailbox.ok()) return stub;
  (void)helper.Syscall(SYS_munmap, {stub, arch::kStubPageBytes + arch::kMailboxBytes}, deadline);
  return mailbox.error();
}

Result<void> LoadLibrary(pid_t pid, Helper& helper, const EntryPoints& points, const Parcel& parcel,
                         const std::string& library_path, const Deadline& deadline) {
  RemoveLeftovers(pid, [&](std::uint64_t number, std::array<std::uint64_t, 6> arguments) {
    return helper.Syscall(number, arguments, deadline);
  });
  ASSIGN_OR_RETURN(const std::uint64_t fd,
                   helper.Syscall(SYS_memfd_create, {helper.name().address, MemfdFlags()}, deadline));
  const auto close_remote = [&](Error error) {
    (void)helper.Syscall(SYS_close, {fd}, deadline);
    return error;
  };
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const ScopedFd memfd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat file{};
  if (!memfd.valid() || fstat(memfd.get(), &file) != 0) return close_remote(ErrnoError("open " + path));
  if (auto written = WriteAll(memfd.get(), parcel.bytes); !written.ok()) return close_remote(written.error());
  auto stub = MapStub(helper, fd, parcel, deadline);
  if (!stub.ok()) return close_remote(stub.error());
  const arch::LoaderCall call = MakeCall(helper, points, fd, *stub, file.st_ino);
  const auto mailbox_at = static_cast<off_t>(parcel.mailbox_offset);
  if (pwrite(memfd.get(), &call, sizeof(call), mailbox_at) != static_cast<ssize_t>(sizeof(call))) {
    const Error error = ErrnoError("write the library's call");
    (void)helper.Syscall(SYS_munmap, {*stub, arch::kStubPageBytes + arch::kMailboxBytes}, deadline);
    return close_remote(error);
  }
  RETURN_IF_ERROR(helper.Run({*stub}, {*stub + arch::kStubPageBytes}));
  return AwaitAnswer(memfd.get(), parcel, library_path, deadline);
}

Result<Report> Enter(const Options& options) {
  const std::int64_t started_ns = MonotonicNs();
  const Deadline deadline = Deadline::AfterMs(options.timeout_ms);
  // A limit of our own (ulimit -f) is an error like others, not the end of this program half-way.
  signal(SIGXFSZ, SIG_IGN);
  ASSIGN_OR_RETURN(const Parcel parcel, Pack(options.library_path));
  if (options.rehearse) RETURN_IF_ERROR(Rehearse(options.library_path));
  ASSIGN_OR_RETURN(const process::Maps maps, process::Maps::Read(options.pid));
  const ProcessMemory memory(options.pid);
  ASSIGN_OR_RETURN(const EntryPoints points, FindEntryPoints(memory, maps));
  ASSIGN_OR_RETURN(const auto threads_before, process::ListThreads(options.pid));

  const std::uint64_t sleep_us = kHelperSleepUs + static_cast<std::uint64_t>(started_ns / 1000 % 1'000'000);
  ASSIGN_OR_RETURN(const Borrowed borrowed, StartHelper(options.pid, points, sleep_us, deadline));
  ASSIGN_OR_RETURN(const pid_t helper_tid,
                   FindHelper(options.pid, threads_before, sleep_us, borrowed, points, deadline));
  ASSIGN_OR_RETURN(Helper helper, Helper::Attach(options.pid, helper_tid, points, deadline));
  RETURN_IF_ERROR(LoadLibrary(options.pid, helper, points, parcel, options.library_path, deadline));

  Report report;
  report.held_thread = borrowed.thread;
  report.held_us = borrowed.held_us;
  report.attempts = borrowed.attempts;
  report.total_us = (MonotonicNs() - started_ns) / 1000;
  return report;
}

}  // namespace

Result<Report> Inject(const Options& options) {
  auto report = Enter(options);
  // A process that is just ending fails in many ways; there is only one thing to say about it.
  if (!report.ok() && !process::IsAlive(options.pid)) {
    return process::EndedMeanwhile(options.pid);
  }
  return report;
}

}  // namespace probing::inject
