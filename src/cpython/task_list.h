// Where the tasks of asyncio are.
//
// Up to 3.13 asyncio keeps them in a weak set: a variable of the C code (3.6), asyncio.tasks._all_tasks (3.7
// to 3.11) or asyncio.tasks._scheduled_tasks. Since 3.14 those made in C are in lists that the threads'
// states begin.
#pragma once

#include <string>
#include <vector>

#include "cpython/attributes.h"
#include "cpython/future_object.h"
#include "cpython/states.h"
#include "process/maps.h"

namespace probing::cpython {

// Lifetime: `memory` must outlive it.
class TaskList {
 public:
  // `maps` of the process: since 3.14 the module that makes the tasks describes them, in 3.6 it has their
  // set.
  TaskList(const process::Memory& memory, const Location& location, const process::Maps& maps);

  // What 3.14 says about its tasks; nothing with other versions.
  const TaskLayout& own_layout() const { return layout_; }

  // In the order of their addresses; none when asyncio is not imported. Fails when the lists changed
  // meanwhile, with kNotFound when this Python does not say where they are.
  Result<std::vector<process::RemoteAddress>> Find(const InterpreterState& interpreter) const;

 private:
  void FindLayout(const process::Maps& maps, const std::string& interpreter);
  void FindSetOfC(const process::Maps& maps);
  Result<std::vector<process::RemoteAddress>> FindWeakSets(process::RemoteAddress module) const;
  Result<void> AddSet(process::RemoteAddress set, bool is_weak,
                      std::vector<process::RemoteAddress>& tasks) const;
  Result<void> AddList(process::RemoteAddress head, std::vector<process::RemoteAddress>& tasks) const;

  const process::Memory* memory_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  int minor_;
  TaskLayout layout_;
  process::RemoteAddress set_of_c_;  // 3.6
  // Since 3.14: in threads' states, in interpreters, and in tasks.
  std::uint32_t thread_list_ = kAbsent, interpreter_list_ = kAbsent, node_ = kAbsent;
};

}  // namespace probing::cpython
