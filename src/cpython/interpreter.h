// Interpreter: the Python in another process, read without calling, stopping or touching it.
//
//   ASSIGN_OR_RETURN(auto interpreter, cpython::Interpreter::Attach(pid));
//   ASSIGN_OR_RETURN(const cpython::Snapshot now, interpreter.Read({}));
//
// Works while the GIL is held, while the process is stopped, hung or dying. Everything read is
// untrusted: garbage gives errors or torn threads, never a crash. Not thread-safe. Keep it to
// read the same process again: what it learns makes later readings several times faster.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpython/event_loop.h"
#include "cpython/gil_switches.h"
#include "cpython/locate.h"
#include "cpython/snapshot.h"
#include "cpython/stack_reader.h"
#include "cpython/states.h"
#include "cpython/tasks.h"
#include "cpython/thread_ids.h"

namespace probing::cpython {

// What one attempt to read a stack gave.
enum class Reading : std::uint8_t {
  kRight,
  kDoubtful,  // consistent, but a moment between two calls looks like this, too
  kTorn,      // the stack changed meanwhile
};

struct ReadOptions {
  std::size_t max_depth = 4096;              // frames kept: the innermost, and the outermost 64
  int attempts = 20;                         // per thread, before it is called torn
  bool locals = false;                       // also the variables of each frame, as short texts...
  int depth_of_values = kDefaultValueDepth;  // ...with so many levels of containers
  // A thread that runs too fast to be read is looked at from its own CPU, which it has to share for
  // some ten microseconds meanwhile (process/shared_cpu.h). For those who ask once, not for samplers:
  // it may take some milliseconds until it is our turn there.
  bool share_cpu = false;
  bool kernel_names = true;  // false: Thread::name stays empty, which saves a file of /proc per thread
  bool tasks = false;        // also the tasks of asyncio
  // Asked once all threads were read; false: `tasks` are left out this time. For those who read again and
  // again.
  std::function<bool(const std::vector<Thread>& threads)> want_tasks;
  bool event_loops = false;  // also when the event loops of threads turned last, and GIL switches
  // Also suspended greenlets: if there may be any, all objects are looked at, for so long at most. 0: no.
  std::int64_t greenlets_ms = 0;
  // kNew saves most of the cost of many threads; one that has ended may then be among them.
  Changes changes = Changes::kAll;
  pid_t only = 0;  // this thread alone; 0: all
  // Asked just before a thread's stack would be read (everything else is known by then); true
  // leaves it out. For those who read again and again, and know that a thread has not run since.
  std::function<bool(const Thread& thread)> skip;
  // Reads a thread's stack by calling `read` once or several times, with the thread held in between if need
  // be; the last reading counts. For samplers, which must not prefer moments at which a stack is easy to
  // read. Each call makes one attempt, and ReadOptions::attempts and share_cpu are not used.
  using ReadOnce = std::function<Reading()>;
  std::function<void(const Thread& thread, const ReadOnce& read)> steady;
};

class Interpreter {
 public:
  // kNotFound: no such process. kPermission: may not be read. kFailed: no Python in it, or
  // one that is not supported.
  static Result<Interpreter> Attach(pid_t pid);

  // The same on any memory (a core file, a test). `pid` 0: there is no /proc to ask, so threads
  // have the ids Python knows.
  static Result<Interpreter> Attach(std::unique_ptr<const process::Memory> memory, const process::Maps& maps,
                                    pid_t pid);

  // Of a process without /proc: its threads, so that a snapshot has their ids.
  void SetThreadsOfDead(pid_t main_tid, const std::vector<pid_t>& tids);

  Result<Snapshot> Read(const ReadOptions& options);

  // The function of the coroutine of a task that ran when it was read; "" when nobody knows. A task that
  // waits has it in its frames.
  std::string RunningFunction(const Task& task) const {
    return tasks_ == nullptr ? "" : tasks_->RunningFunction(task.id);
  }

  // What ReadOptions::greenlets_ms does, afterwards: the process need not be held meanwhile.
  void AddGreenlets(Snapshot& snapshot, std::int64_t limit_ms);

  // With ReadOptions::event_loops, as of the last reading, also while that calls `skip`:
  // Snapshot::gil_switches.
  std::optional<std::uint64_t> gil_switches() const { return last_gil_switches_; }

  // The same: whether a thread that sleeps in a futex at this address waits for the GIL.
  std::optional<bool> IsGilWait(std::uint64_t futex) const { return gil_switches_.IsWait(futex); }

  const Version& version() const { return location_.version; }
  const Location& location() const { return location_; }

 private:
  Interpreter(std::unique_ptr<const process::Memory> memory, Location location, pid_t pid);

  struct Identity {
    ThreadState state;
    pid_t tid = 0;
    std::optional<std::string> name;  // the kernel's, once it was asked for
    std::string python_name;
  };

  const std::string& NameOf(Identity& identity) const;
  // The stacks of threads that stand still, at the index of each, or nothing at all; the others are torn.
  std::vector<Stack> ReadWaiting(const InterpreterState& interpreter, const ReadOptions& options);
  Stack ReadStack(const Identity& identity, const ReadOptions& options);
  Stack ReadSteadily(const Identity& identity, const Thread& thread, const ReadOptions& options);

  // Learns which threads there are, their ids and names. /proc is asked only when some are new.
  Result<void> UpdateThreads();

  Result<process::Maps> ReadMaps() const;
  Result<TaskReader*> Tasks();
  void AddTasks(Snapshot& snapshot);

  // A thread has a state before it has a name in Python, and some never get one.
  void UpdatePythonNames();

  pid_t pid_;
  pid_t main_tid_;
  std::unique_ptr<const process::Memory> memory_;
  Location location_;
  process::Maps maps_of_dead_;  // without /proc
  ThreadNumbers numbers_of_dead_;
  std::unique_ptr<StackReader> stacks_;  // in one place, since others point to it
  std::unique_ptr<TaskReader> tasks_;
  std::int64_t tasks_since_ns_ = 0;
  EventLoopReader loops_;
  GilSwitches gil_switches_;
  std::optional<std::uint64_t> last_gil_switches_;
  std::vector<InterpreterState> last_states_;
  std::vector<Identity> identities_;  // of all threads in last_states_, in their order
  int looks_for_names_left_ = 0;
};

}  // namespace probing::cpython
