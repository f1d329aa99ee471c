// The tasks of asyncio (Python 3.12 and newer): what each of them awaits, read from outside.
//
// A task that does not run stands still until its event loop comes to it. It is read twice, and left out
// when it moved.
#pragma once

#include <vector>

#include "cpython/attributes.h"
#include "cpython/stack_reader.h"
#include "cpython/task_list.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: all that it is given must outlive it.
class TaskReader {
 public:
  // `maps` of the process, or none: then there are no tasks since 3.14.
  TaskReader(const process::Memory& memory, const Location& location, const process::Maps& maps,
             StackReader& stacks);

  struct FoundTask {
    Task task;
    std::uint64_t pthread = 0;  // of the thread that runs its loop, or 0
  };
  struct Found {
    std::vector<FoundTask> tasks;
    std::size_t count = 0;  // all there are; some may not have been read
  };
  // Nothing when this Python has no asyncio, or is older than 3.12.
  Found Read(const InterpreterState& interpreter);

 private:
  struct Chain {
    std::vector<RawFrame> frames;  // outermost first
    bool is_running = false;
  };

  // kNotFound: it is done, or no task made in C.
  Result<FoundTask> ReadTask(process::RemoteAddress task);
  Result<bool> IsTask(process::RemoteAddress task);
  Result<std::string> ReadName(process::RemoteAddress name);
  Result<Chain> ReadChain(process::RemoteAddress coroutine);
  Result<std::string> TypeName(process::RemoteAddress object) const;
  std::uint64_t ThreadOf(process::RemoteAddress loop);

  const process::Memory* memory_;
  Offsets offsets_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  StackReader* stacks_;
  TaskList list_;
  TaskLayout layout_;
  std::int8_t created_state_;                                   // of a coroutine that was never run
  std::unordered_map<std::uint64_t, bool> is_task_;             // by the address of the class
  std::unordered_map<std::uint64_t, std::uint64_t> thread_of_;  // by the address of the loop
};

}  // namespace probing::cpython
