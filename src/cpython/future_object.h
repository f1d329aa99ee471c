// One future or task of asyncio, made in C (`_asyncio`) or in Python: its fields, read from outside.
//
// Up to 3.12 the layout of a C object follows from the size of its class and from where that class has
// `__dict__`, which holds for every patch release. 3.14 describes itself (task_list.h).
#pragma once

#include <unordered_map>
#include <vector>

#include "cpython/attributes.h"

namespace probing::cpython {

// Of a TaskObj, in bytes from the end of the object's head. Its first field is the event loop.
struct TaskLayout {
  std::uint32_t state = kAbsent, waiter = kAbsent, coroutine = kAbsent, name = kAbsent;
};

struct TaskFields {
  bool is_pending = false;
  process::RemoteAddress loop, coroutine, name;  // no name before 3.8: null
  process::RemoteAddress waiter;                 // the future it waits for, or null

  bool operator==(const TaskFields&) const = default;
};

// Not thread-safe. Lifetime: `memory` must outlive it.
class FutureReader {
 public:
  // `own_layout`: what 3.14 says about itself; not used with other versions.
  FutureReader(const process::Memory& memory, const Location& location, const TaskLayout& own_layout);

  // kNotFound: it is no task.
  Result<TaskFields> ReadTask(process::RemoteAddress object);

  // True for tasks, too.
  Result<bool> IsFuture(process::RemoteAddress object);
  // REQUIRES: IsFuture(). What will be called when it is done, at most `max_callbacks`.
  Result<std::vector<process::RemoteAddress>> ReadCallbacks(process::RemoteAddress future,
                                                            std::size_t max_callbacks);

 private:
  enum class Kind : std::uint8_t { kOther, kFutureInC, kTaskInC, kFutureInPython, kTaskInPython };
  struct Class {
    Kind kind = Kind::kOther;
    TaskLayout layout;  // of kTaskInC; only `state` of kTaskInPython which is made of a future in C (3.6)
  };

  Result<Class> ClassOf(process::RemoteAddress object);
  Result<Class> Classify(process::RemoteAddress type) const;
  Result<TaskLayout> LayoutOf(process::RemoteAddress type) const;
  Result<TaskFields> ReadPythonTask(process::RemoteAddress object, const TaskLayout& layout) const;
  Result<process::RemoteAddress> AttributeOrNull(process::RemoteAddress object, std::string_view name) const;

  const process::Memory* memory_;
  Offsets offsets_;
  ObjectLayout objects_;
  AttributeReader attributes_;
  TaskLayout own_layout_;
  int minor_;
  std::unordered_map<std::uint64_t, Class> classes_;  // by the address of the class
};

}  // namespace probing::cpython
