// What the kernel knows: files, pipes, sockets, children, locks of files.
#include <fcntl.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "arch/native.h"
#include "base/file.h"
#include "base/text.h"
#include "process/status.h"
#include "why/investigation.h"

namespace probing::why {
namespace {

constexpr std::size_t kMaxPolled = 1024;
constexpr std::size_t kMaxEnds = 32;  // processes that may be the other end
constexpr long kEpollPwait2 = 441;

bool IsTerminal(std::string_view path) {
  return path.starts_with("/dev/pts/") || path.starts_with("/dev/tty") || path == "/dev/console";
}

bool IsPipeOfFileSystem(pid_t pid, int fd) {
  struct stat about{};
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  return stat(path.c_str(), &about) == 0 && S_ISFIFO(about.st_mode);
}

std::string Plural(std::size_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

}  // namespace

void Investigation::ReadCall(Look& look) {
  const auto fd = static_cast<int>(look.call.arguments[0]);
  const auto end = [&](End kind, std::string note) {
    graph_.nodes[look.node].end = kind;
    graph_.nodes[look.node].note = std::move(note);
  };
  switch (look.call.number) {
    case SYS_futex:
      return WaitForFutex(look);
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
      if (WaitForRanks(look)) return;
      return WaitForDescriptor(look, fd, false, false);
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_connect:
      return WaitForDescriptor(look, fd, true, false);
    case SYS_accept:
    case SYS_accept4:
      return WaitForDescriptor(look, fd, false, false);
    case arch::kPoll:
    case SYS_ppoll:
    case arch::kSelect:
    case SYS_pselect6:
    case arch::kEpollWait:
    case SYS_epoll_pwait:
    case kEpollPwait2: {
      if (WaitForRanks(look)) return;
      const std::vector<int> fds = PolledDescriptors(look);
      if (fds.empty()) return end(End::kSleeps, "");
      WaitForDescriptors(look, fds, false);
      return WaitForTasks(look);
    }
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return end(End::kSleeps, "");
    case SYS_wait4:
    case SYS_waitid:
      return WaitForChildren(look);
    case SYS_flock:
      return WaitForFileLock(look, fd);
    case SYS_fcntl:
      if (look.call.arguments[1] == F_SETLKW || look.call.arguments[1] == F_OFD_SETLKW) {
        return WaitForFileLock(look, fd);
      }
      return;
    case arch::kOpen:
    case SYS_openat:
      return WaitForOpen(look);
    case arch::kPause:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
      return end(End::kOutside, "waits for a signal");
    default:
      return;
  }
}

// The descriptors of poll, select and epoll, as the caller's memory has them.
std::vector<int> Investigation::PolledDescriptors(const Look& look) const {
  const auto& argument = look.call.arguments;
  const process::ProcessMemory memory(look.pid);
  std::vector<int> fds;
  if (look.call.number == arch::kPoll || look.call.number == SYS_ppoll) {
    std::vector<pollfd> polled(std::min<std::size_t>(argument[1], kMaxPolled));
    if (!memory.Read({argument[0]}, std::as_writable_bytes(std::span(polled))).ok()) return fds;
    for (const pollfd& each : polled) {
      if (each.fd >= 0 && each.events != 0) fds.push_back(each.fd);
    }
  } else if (look.call.number == arch::kSelect || look.call.number == SYS_pselect6) {
    const std::size_t count = std::min<std::size_t>(argument[0], FD_SETSIZE);
    for (const std::uint64_t set : {argument[1], argument[2]}) {
      std::array<std::uint64_t, FD_SETSIZE / 64> bits{};
      if (set == 0 ||
          !memory.Read({set}, std::as_writable_bytes(std::span(bits).first((count + 63) / 64))).ok()) {
        continue;
      }
      for (std::size_t fd = 0; fd < count; ++fd) {
        if ((bits[fd / 64] >> (fd % 64) & 1) != 0) fds.push_back(static_cast<int>(fd));
      }
    }
  } else {
    fds = descriptors_.Watched(look.pid, static_cast<int>(argument[0]));
  }
  return fds;
}

void Investigation::WaitForDescriptors(Look& look, const std::vector<int>& fds, bool to_write) {
  for (const int fd : fds) WaitForDescriptor(look, fd, to_write, fds.size() > 1);
}

void Investigation::WaitForDescriptor(Look& look, int fd, bool to_write, bool is_one_of_many) {
  const auto open = descriptors_.Find(look.pid, fd);
  if (!open) return;
  if (open->is_pipe() || IsPipeOfFileSystem(look.pid, fd)) {
    return WaitForPipe(look, *open, to_write, is_one_of_many);
  }
  if (open->is_socket()) return WaitForSocket(look, *open, is_one_of_many);
  if (IsTerminal(open->path)) {
    return AddWait(look,
                   AddEnd(End::kOutside, 0,
                          to_write ? "terminal " + open->path + " is not read (^S?)"
                                   : "somebody's input at the terminal " + open->path),
                   "terminal");
  }
  if (open->path == "anon_inode:[pidfd]") {
    pid_t child = 0;
    if (ParseNumber(descriptors_.Info(look.pid, fd, "Pid:"), child) && child > 0) {
      AddWait(look, AddProcess(child), "the end of a process");
    }
    return;
  }
  if (open->path == "anon_inode:[eventpoll]") {
    return WaitForDescriptors(look, descriptors_.Watched(look.pid, fd), to_write);
  }
  if (is_one_of_many || open->path.starts_with("anon_inode:[")) return;
  AddWait(look, AddEnd(End::kKernel, 0, open->path), "file");
}

// Edges to those who have the other end. `holders` are of one kind: readers or writers.
void Investigation::WaitForHolders(Look& look, const std::vector<Descriptor>& holders,
                                   const std::string& reason) {
  std::size_t count = 0;
  for (const Descriptor& holder : holders) {
    if (++count > kMaxEnds) return;
    AddWait(look, AddProcess(holder.pid, holder.inode), reason);
  }
}

void Investigation::WaitForPipe(Look& look, const Descriptor& pipe, bool to_write, bool is_one_of_many) {
  std::vector<Descriptor> others;
  const std::vector<Descriptor> holders = descriptors_.Holders(pipe);
  for (const Descriptor& holder : holders) {
    const bool is_other_end = to_write ? holder.readable : holder.writable;
    if (is_other_end && holder.pid != look.pid) others.push_back(holder);
  }
  // Processes that inherited both ends rarely use both: those with only the other one are meant.
  std::vector<Descriptor> only;
  for (const Descriptor& other : others) {
    const bool has_this_end = std::ranges::any_of(holders, [&](const Descriptor& holder) {
      return holder.pid == other.pid && (to_write ? holder.writable : holder.readable);
    });
    if (!has_this_end) only.push_back(other);
  }
  const std::string reason = pipe.is_pipe() ? "pipe" : "named pipe " + pipe.path;
  if (!only.empty()) return WaitForHolders(look, only, reason);
  if (!others.empty()) return WaitForHolders(look, others, reason);
  if (is_one_of_many) return;  // a thread wakes itself up by it
  for (const pid_t child : ChildrenOf(look.pid)) {
    const auto status = process::ReadStatus(child);
    if (status.ok() && status->ended()) {
      AddWait(look, AddProcess(child), reason + ", whose other end no living process but itself has", false);
    }
  }
  if (!graph_.nodes[look.node].waits.empty()) return;
  if (!pipe.is_pipe()) {
    return AddWait(look, AddEnd(End::kOutside, 0, "no process has opened the other end of " + pipe.path),
                   reason);
  }
  WaitForThreadsWith(look, {}, reason + " within the process");
}

void Investigation::WaitForSocket(Look& look, const Descriptor& socket, bool is_one_of_many) {
  const Peer peer = sockets_.PeerOf(look.pid, socket.inode);
  switch (peer.kind) {
    case Peer::Kind::kListening:
      return AddWait(look, AddEnd(End::kIdle, 0, "a connection to " + peer.name), "listens");
    case Peer::Kind::kNone:
      if (!is_one_of_many) AddWait(look, AddEnd(End::kOutside, 0, "a socket without a peer"), "socket");
      return;
    case Peer::Kind::kElsewhere:
      return AddWait(look, AddEnd(End::kOutside, 0, peer.name), peer.name);
    case Peer::Kind::kHere:
    case Peer::Kind::kNotTaken:
      break;
  }
  std::vector<Descriptor> holders;
  bool is_own = false;
  for (const std::uint64_t inode : peer.inodes) {
    for (const Descriptor& holder : descriptors_.Holders(inode)) {
      is_own = is_own || holder.pid == look.pid;
      if (holder.pid != look.pid) holders.push_back(holder);
    }
  }
  const std::string reason =
      peer.name + (peer.kind == Peer::Kind::kNotTaken ? ", which it has not accepted" : "");
  if (!holders.empty()) return WaitForHolders(look, holders, reason);
  if (is_own) {
    if (!is_one_of_many) WaitForThreadsWith(look, {}, reason + " within the process");
    return;
  }
  AddWait(look, AddEnd(End::kOutside, 0, peer.name + " (its process cannot be seen from here)"), reason);
}

void Investigation::WaitForChildren(Look& look) {
  const auto& argument = look.call.arguments;
  const auto status = process::ReadStatus(look.pid);
  std::vector<pid_t> waited;
  const std::vector<pid_t> children = ChildrenOf(look.pid);
  auto which = static_cast<std::int32_t>(argument[0]);
  if (look.call.number == SYS_waitid) {
    if (argument[0] == P_PIDFD) {
      pid_t pid = 0;
      if (ParseNumber(descriptors_.Info(look.pid, static_cast<int>(argument[1]), "Pid:"), pid)) {
        waited.push_back(pid);
      }
    }
    which = argument[0] == P_PID ? static_cast<std::int32_t>(argument[1]) : -1;
  }
  for (const pid_t child : waited.empty() ? children : std::vector<pid_t>{}) {
    const auto about = process::ReadStatus(child);
    // The target counts in its own pid namespace.
    if (which <= 0 || child == which || (about.ok() && about->own_pid() == which)) waited.push_back(child);
  }
  for (const pid_t child : waited) AddWait(look, AddProcess(child), "the end of its child");
  if (waited.empty()) graph_.nodes[look.node].note = "waits for a child that is not there";
}

void Investigation::WaitForFileLock(Look& look, int fd) {
  const auto open = descriptors_.Find(look.pid, fd);
  const std::string path = open ? open->path : "a file";
  const auto text = ReadFile(descriptors_.root() + "/locks");
  for (const FileLock& lock : LocksInTheWayOf(look.pid, ParseFileLocks(text.ok() ? *text : ""))) {
    const auto holder = lock.pid > 0 ? process::ReadStatus(lock.pid) : Result<process::Status>(Error{});
    const std::string reason = "lock on " + path;
    if (holder.ok() && !holder->ended()) {
      AddWait(look, AddProcess(lock.pid), reason);
      continue;
    }
    // The lock is of an open file that others have inherited.
    for (const pid_t pid : descriptors_.Processes()) {
      for (const Descriptor& other : descriptors_.Of(pid)) {
        if (pid == look.pid || other.path != path) continue;
        if (descriptors_.InfoText(pid, other.fd).find("lock:") != std::string::npos) {
          AddWait(look, AddProcess(pid), reason);
        }
      }
    }
  }
  if (graph_.nodes[look.node].waits.empty()) {
    AddWait(look, AddEnd(End::kOutside, 0, "the lock on " + path + ", held by a process that cannot be seen"),
            "file lock");
  }
}

// Opening a named pipe waits for someone to open its other end.
void Investigation::WaitForOpen(Look& look) {
  const std::uint64_t at = look.call.number == arch::kOpen ? look.call.arguments[0] : look.call.arguments[1];
  const auto path = process::ProcessMemory(look.pid).ReadCString({at}, 4096);
  if (look.status.state == 'D' || !path.ok()) return;
  AddWait(look, AddEnd(End::kOutside, 0, "no process has opened the other end of " + *path),
          "open of " + *path);
}

// The tasks of the event loop that this thread runs. They are no threads, so they only explain.
void Investigation::WaitForTasks(Look& look) {
  if (look.process == nullptr || look.python == nullptr) return;
  const bool runs_loop = std::ranges::any_of(look.python->frames, [](const cpython::Frame& frame) {
    return PlainName(frame.function) == "_run_once" || frame.file.find("asyncio") != std::string::npos ||
           frame.file.find("uvloop") != std::string::npos;
  });
  if (!runs_loop) return;
  std::string places;
  std::size_t count = 0;
  const cpython::Frame* first = nullptr;
  for (const cpython::Task& task : look.process->tasks()) {
    const cpython::Frame* frame = UserFrame(task.frames);
    if (task.tid != look.tid || frame == nullptr || IsLibraryFile(frame->file)) continue;
    if (++count > 3) continue;
    if (first == nullptr || !task.awaited_by.empty()) first = frame;
    places += (places.empty() ? "" : ", ") + (task.name.empty() ? std::string("a task") : task.name) +
              " in " + frame->function + " (" + std::string(process::BaseName(frame->file)) + ":" +
              std::to_string(frame->line) + ")";
    const cpython::Frame& innermost = task.frames.front();
    if (&innermost != frame) places += " → " + innermost.function;
  }
  if (count == 0) return;
  Node& node = graph_.nodes[look.node];
  node.function = first->function;
  node.file = first->file;
  node.line = first->line;
  AddWait(look,
          AddEnd(End::kUnknown, look.pid, Plural(count, "asyncio task") + " of its event loop: " + places),
          "asyncio");
}

}  // namespace probing::why
