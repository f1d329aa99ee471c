#include "process/thread_status.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "base/stat_line.h"
#include "process/blocked_call.h"

namespace probing::process {
namespace {

// The calls in which threads of real programs are found waiting.
const char* CommonSyscallName(long number) {
  switch (number) {
#define PROBING_SYSCALL(name) \
  case SYS_##name:            \
    return #name
    PROBING_SYSCALL(read);
    PROBING_SYSCALL(write);
    PROBING_SYSCALL(readv);
    PROBING_SYSCALL(writev);
    PROBING_SYSCALL(pread64);
    PROBING_SYSCALL(pwrite64);
    PROBING_SYSCALL(ppoll);
    PROBING_SYSCALL(pselect6);
    PROBING_SYSCALL(epoll_pwait);
    PROBING_SYSCALL(futex);
    PROBING_SYSCALL(nanosleep);
    PROBING_SYSCALL(clock_nanosleep);
    PROBING_SYSCALL(accept);
    PROBING_SYSCALL(accept4);
    PROBING_SYSCALL(connect);
    PROBING_SYSCALL(sendto);
    PROBING_SYSCALL(recvfrom);
    PROBING_SYSCALL(sendmsg);
    PROBING_SYSCALL(recvmsg);
    PROBING_SYSCALL(wait4);
    PROBING_SYSCALL(waitid);
    PROBING_SYSCALL(rt_sigtimedwait);
    PROBING_SYSCALL(rt_sigsuspend);
    PROBING_SYSCALL(sched_yield);
    PROBING_SYSCALL(openat);
    PROBING_SYSCALL(ioctl);
    PROBING_SYSCALL(fsync);
    PROBING_SYSCALL(flock);
    PROBING_SYSCALL(mmap);
    PROBING_SYSCALL(munmap);
    PROBING_SYSCALL(madvise);
#ifdef SYS_poll  // newer architectures have only the variants above
    PROBING_SYSCALL(poll);
    PROBING_SYSCALL(select);
    PROBING_SYSCALL(epoll_wait);
    PROBING_SYSCALL(pause);
#endif
#undef PROBING_SYSCALL
    default:
      return nullptr;
  }
}

std::string SyscallName(std::string_view text) {
  const auto call = ParseBlockedCall(text);
  if (!call.ok() || call->number < 0) return "";
  const char* name = CommonSyscallName(static_cast<long>(call->number));
  return name != nullptr ? name : std::to_string(call->number);
}

// A file of a line or two, with one read: those of the kernel come whole.
std::string ReadLine(const ScopedFd& folder, const std::string& name) {
  const ScopedFd fd(openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  const ssize_t n = fd.valid() ? read(fd.get(), buffer.data(), buffer.size()) : 0;
  return {buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0};
}

}  // namespace

ThreadStatusReader::ThreadStatusReader(pid_t pid, Details details, const std::string& proc_root)
    : pid_(pid),
      details_(details),
      folder_(open((proc_root + "/" + std::to_string(pid) + "/task").c_str(),
                   O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

Result<ThreadStatus> ThreadStatusReader::Read(pid_t tid) const {
  const std::string thread = std::to_string(tid);
  const std::string stat = folder_.valid() ? ReadLine(folder_, thread + "/stat") : "";
  if (stat.empty()) {
    return Error{Code::kNotFound, "process " + std::to_string(pid_) + " has no thread " + thread, ""};
  }
  ThreadStatus status;
  status.tid = tid;
  const StatLine line(stat);
  status.name = line.name();
  status.state = line.state();
  if (status.state == 'R') return status;  // in no call, waiting for nothing
  status.syscall = SyscallName(ReadLine(folder_, thread + "/syscall"));
  if (details_ == Details::kNoWaitChannel) return status;
  if (std::string channel = ReadLine(folder_, thread + "/wchan"); channel != "0") {
    status.wait_channel = std::move(channel);
  }
  return status;
}

Result<ThreadStatus> ReadThreadStatus(pid_t pid, pid_t tid, const std::string& proc_root) {
  return ThreadStatusReader(pid, ThreadStatusReader::Details::kAll, proc_root).Read(tid);
}

std::string_view StateWord(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':  // disk, network file system, GPU driver, a vfork()ed child: the system call says which
      return "uninterruptible";
    case 'T':
      return "stopped";
    case 't':  // held by a debugger
      return "traced";
    case 'Z':
    case 'X':
      return "zombie";
    case 'I':
      return "idle";
    default:
      return "unknown";
  }
}

}  // namespace probing::process
