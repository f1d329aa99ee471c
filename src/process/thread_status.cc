#include "process/thread_status.h"

#include <sys/syscall.h>

#include <charconv>
#include <string_view>

#include "base/file.h"

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

// "202 0x7f…", "running", or "-1 …" when the thread is blocked outside of a system call.
std::string SyscallName(std::string_view text) {
  long number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return "";
  const char* name = CommonSyscallName(number);
  return name != nullptr ? name : std::to_string(number);
}

}  // namespace

Result<ThreadStatus> ReadThreadStatus(pid_t pid, pid_t tid, const std::string& proc_root) {
  const std::string folder = proc_root + "/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/";
  const auto stat = ReadFile(folder + "stat");
  if (!stat.ok()) {
    return Error{Code::kNotFound, "process " + std::to_string(pid) + " has no thread " + std::to_string(tid),
                 ""};
  }
  ThreadStatus status;
  status.tid = tid;
  // "17 (a name) S 1 …": the name may contain anything, even parentheses.
  const std::size_t name_start = stat->find('(');
  const std::size_t name_end = stat->rfind(')');
  if (name_start < name_end && name_end != std::string::npos && name_end + 2 < stat->size()) {
    status.name = stat->substr(name_start + 1, name_end - name_start - 1);
    status.state = (*stat)[name_end + 2];
  }
  if (status.state == 'R') return status;  // in no call, waiting for nothing
  if (const auto syscall = ReadFile(folder + "syscall"); syscall.ok()) status.syscall = SyscallName(*syscall);
  if (const auto channel = ReadFile(folder + "wchan"); channel.ok() && *channel != "0") {
    status.wait_channel = *channel;
  }
  return status;
}

const char* StateName(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for the disk";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a debugger";
    case 'Z':
      return "ended";
    case 'X':
      return "dead";
    default:
      return "unknown";
  }
}

}  // namespace probing::process
