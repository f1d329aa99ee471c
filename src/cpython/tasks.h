// The tasks of asyncio: what each of them awaits, read from outside.
//
// A task that does not run stands still until its event loop comes to it. It is read twice, and left out
// when it moved.
#pragma once

#include <vector>

#include "cpython/attributes.h"
#include "cpython/await_chain.h"
#include "cpython/awaited_by.h"
#include "cpython/future_object.h"
#include "cpython/stack_reader.h"
#include "cpython/task_list.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: all that it is given must outlive it.
class TaskReader {
 public:
  // `maps` of the process, or none: then the tasks of 3.14 cannot be found.
  TaskReader(const process::Memory& memory, const Location& location, const process::Maps& maps,
             StackReader& stacks);

  struct FoundTask {
    Task task;
    std::uint64_t pthread = 0;      // of the thread that runs its loop, or 0
    process::RemoteAddress waiter;  // the future it waits for, or null
  };
  struct Found {
    std::vector<FoundTask> tasks;
    std::size_t count = 0;  // all there are; some may not have been read
    std::string unknown;    // why nobody knows which tasks there are; empty when it is known
  };
  // Nothing when this Python has not imported asyncio.
  Found Read(const InterpreterState& interpreter);

  // The function of the coroutine of a task that ran in the last reading; "" when nobody knows.
  std::string RunningFunction(std::uint64_t task) const {
    const auto found = running_.find(task);
    return found == running_.end() ? "" : found->second;
  }

 private:
  // kNotFound: it is done, or no task.
  Result<FoundTask> ReadTask(process::RemoteAddress task, const InterpreterState& interpreter);
  Result<std::string> ReadName(process::RemoteAddress name) const;
  // pthread_t of the thread that runs it, or 0.
  std::uint64_t ThreadOf(process::RemoteAddress loop, const InterpreterState& interpreter);
  std::uint64_t FindThreadIn(process::RemoteAddress loop, const InterpreterState& interpreter) const;

  const process::Memory* memory_;
  Offsets offsets_;
  AttributeReader attributes_;
  StackReader* stacks_;
  TaskList list_;
  FutureReader futures_;
  AwaitChainReader chains_;
  AwaitedByReader awaited_by_;
  std::unordered_map<std::uint64_t, std::uint64_t> thread_of_;  // by the address of the loop
  std::unordered_map<std::uint64_t, std::string> running_;      // functions, by Task::id
};

}  // namespace probing::cpython
