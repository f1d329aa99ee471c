// Fills the graph of waits: from the threads that were asked for to everything they wait for.
//
//   Investigation investigation;
//   const std::size_t main = investigation.AddThread(pid, pid);
//   investigation.Run();
//   Follow(investigation.graph(), main);
//
// Reads /proc, the kernel's socket tables and the memory of interpreters. Nothing is stopped, called or
// written: no ptrace. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/source_path.h"
#include "process/blocked_call.h"
#include "process/job_identity.h"
#include "process/thread_status.h"
#include "why/file_locks.h"
#include "why/model.h"
#include "why/python_process.h"
#include "why/sockets.h"

namespace probing::why {

class Investigation {
 public:
  // What is not read by then stays unknown.
  static constexpr std::int64_t kLimitMs = 800;

  Investigation();

  std::size_t AddThread(pid_t pid, pid_t tid);
  // A process of which one thread has to do something about the socket `inode`, or about whatever (0).
  std::size_t AddProcess(pid_t pid, std::uint64_t inode = 0);
  void Run();

  const Graph& graph() const { return graph_; }
  bool timed_out() const { return timed_out_; }

  // Null when there is no Python in it, or it may not be read.
  PythonProcess* Python(pid_t pid);
  // Why not.
  const Error* WhyNoPython(pid_t pid) const;
  const std::vector<process::RankProcess>& Ranks();

 private:
  struct Look;  // at one thread: what the readers below share

  void ReadThread(std::size_t index);
  void Describe(Node& node, const PythonThread* python);
  void ReadCall(Look& look);

  // waits.cc: what the kernel knows.
  void WaitForDescriptors(Look& look, const std::vector<int>& fds, bool to_write);
  void WaitForDescriptor(Look& look, int fd, bool to_write, bool is_one_of_many);
  void WaitForPipe(Look& look, const Descriptor& pipe, bool to_write, bool is_one_of_many);
  void WaitForSocket(Look& look, const Descriptor& socket, bool is_one_of_many);
  void WaitForHolders(Look& look, const std::vector<Descriptor>& holders, const std::string& reason);
  void WaitForChildren(Look& look);
  void WaitForFileLock(Look& look, int fd);
  void WaitForOpen(Look& look);
  void WaitForTasks(Look& look);
  std::vector<int> PolledDescriptors(const Look& look) const;

  // python_waits.cc: what the interpreter knows.
  void WaitForFutex(Look& look);
  bool WaitForJoin(Look& look);
  bool WaitForLock(Look& look, std::uint64_t word);
  void WaitForOwner(Look& look, const LockObject& lock);
  void WaitForSemaphore(Look& look, const LockObject& lock);
  bool WaitForNotification(Look& look);
  bool WaitForMutex(Look& look, std::uint64_t word);
  void WaitForThreadsWith(Look& look, const std::vector<RemoteAddress>& objects, const std::string& reason);

  // rank_waits.cc: what torch.distributed knows.
  bool WaitForRanks(Look& look);

  std::size_t AddEnd(End end, pid_t pid, const std::string& note);
  void AddWait(Look& look, std::size_t on, std::string reason, bool certain = true);
  std::vector<pid_t> ChildrenOf(pid_t pid);
  std::string LabelOf(pid_t pid);
  std::optional<std::int64_t> RankOf(pid_t pid);

  Graph graph_;
  std::map<std::pair<pid_t, pid_t>, std::size_t> threads_;
  std::map<std::pair<pid_t, std::uint64_t>, std::size_t> processes_;
  std::map<std::pair<pid_t, std::string>, std::size_t> ends_;
  std::vector<std::size_t> unread_;
  std::unordered_map<pid_t, std::unique_ptr<PythonProcess>> pythons_;
  std::unordered_map<pid_t, Error> no_python_;
  std::unordered_map<pid_t, std::string> labels_;
  std::optional<std::vector<process::RankProcess>> ranks_;
  std::optional<std::unordered_map<pid_t, std::vector<pid_t>>> children_;
  Descriptors descriptors_;
  Sockets sockets_;
  Deadline deadline_;
  bool timed_out_ = false;
};

struct Investigation::Look {
  std::size_t node = 0;
  pid_t pid = 0;
  pid_t tid = 0;
  process::ThreadStatus status;
  process::BlockedCall call;
  PythonProcess* process = nullptr;
  const PythonThread* python = nullptr;
};

// The innermost frame of the user's; the innermost one when there is none; null without frames.
const cpython::Frame* UserFrame(const std::vector<cpython::Frame>& frames);
// The name without the class: "wait" of "Condition.wait".
std::string_view PlainName(std::string_view function);

}  // namespace probing::why
