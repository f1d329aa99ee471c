// Where the tasks of asyncio are, and how one is laid out (Python 3.12 and newer).
//
// Tasks made in C are found where asyncio keeps them: up to 3.13 in the weak set
// asyncio.tasks._scheduled_tasks, since 3.14 in lists that the threads' states begin.
#pragma once

#include <vector>

#include "cpython/attributes.h"
#include "cpython/states.h"
#include "process/maps.h"

namespace probing::cpython {

// Of a TaskObj, in bytes from the end of the object's head. Its first field is the event loop.
struct TaskLayout {
  std::uint32_t state = kAbsent, waiter = kAbsent, coroutine = kAbsent, name = kAbsent, end = 0;
};

// Lifetime: `memory` must outlive it.
class TaskList {
 public:
  // `maps` of the process: since 3.14 the module that makes the tasks describes them.
  TaskList(const process::Memory& memory, const Location& location, const process::Maps& maps);

  // False when this Python is older, or has not imported asyncio.
  bool is_known() const { return layout_.state != kAbsent; }
  const TaskLayout& layout() const { return layout_; }

  // In the order of their addresses. Fails when the lists changed meanwhile.
  Result<std::vector<process::RemoteAddress>> Find(const InterpreterState& interpreter) const;

 private:
  void FindLayout(const process::Maps& maps);
  Result<void> AddSet(process::RemoteAddress set, bool is_weak,
                      std::vector<process::RemoteAddress>& tasks) const;
  Result<void> AddList(process::RemoteAddress head, std::vector<process::RemoteAddress>& tasks) const;

  const process::Memory* memory_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  TaskLayout layout_;
  // Since 3.14: in threads' states, in interpreters, and in tasks.
  std::uint32_t thread_list_ = kAbsent, interpreter_list_ = kAbsent, node_ = kAbsent;
};

}  // namespace probing::cpython
