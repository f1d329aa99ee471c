#include "cpython/dead_process.h"

#include <algorithm>

#include "cpython/thread_ids.h"

namespace probing::cpython {
namespace {

// All threads in the order of a snapshot without /proc: by the id that Python knows.
Result<std::vector<ThreadState>> OrderedStates(const process::Memory& memory, const Location& location) {
  ASSIGN_OR_RETURN(const auto interpreters, ReadStates(memory, location));
  std::vector<ThreadState> states;
  for (const InterpreterState& interpreter : interpreters) {
    states.insert(states.end(), interpreter.threads.begin(), interpreter.threads.end());
  }
  std::stable_sort(states.begin(), states.end(), [](const ThreadState& a, const ThreadState& b) {
    return static_cast<pid_t>(a.native_id) < static_cast<pid_t>(b.native_id);
  });
  return states;
}

}  // namespace

Result<Snapshot> ReadDead(std::unique_ptr<const process::Memory> memory, const process::Maps& maps, pid_t pid,
                          const std::vector<pid_t>& tids, ReadOptions options) {
  options.attempts = 1;                      // a second one would read the same
  const process::Memory& remains = *memory;  // the interpreter keeps it
  ASSIGN_OR_RETURN(Interpreter interpreter, Interpreter::Attach(std::move(memory), maps, 0));
  ASSIGN_OR_RETURN(Snapshot snapshot, interpreter.Read(options));
  ASSIGN_OR_RETURN(const std::vector<ThreadState> states, OrderedStates(remains, interpreter.location()));
  ThreadNumbers numbers;
  for (const pid_t tid : tids) numbers.emplace(tid, tid);
  const std::vector<pid_t> ids = FindThreadIds(remains, states, numbers);
  snapshot.gil_holder_tid.reset();
  for (std::size_t i = 0; i < std::min(ids.size(), snapshot.threads.size()); ++i) {
    Thread& thread = snapshot.threads[i];
    if (ids[i] != 0) thread.tid = ids[i];
    if (thread.has_gil && !snapshot.gil_holder_tid) snapshot.gil_holder_tid = thread.tid;
  }
  std::stable_sort(snapshot.threads.begin(), snapshot.threads.end(), [&](const Thread& a, const Thread& b) {
    return std::pair(a.tid != pid, a.tid) < std::pair(b.tid != pid, b.tid);
  });
  return snapshot;
}

}  // namespace probing::cpython
