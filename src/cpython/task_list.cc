#include "cpython/task_list.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "cpython/block.h"
#include "cpython/containers.h"
#include "cpython/object_data.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxListed = 1 << 16;

Error Moved() { return {Code::kFailed, "the list of tasks changed while it was read", ""}; }

// What _asyncio says about itself since 3.14, in the section .AsyncioDebug.
struct AsyncioDebug {
  std::uint64_t task_size, task_name, task_awaited_by, task_is_task, task_awaited_by_is_set, task_coro,
      task_node;
  std::uint64_t interpreter_size, interpreter_tasks_head;
  std::uint64_t thread_size, thread_running_loop, thread_running_task, thread_tasks_head;
};
constexpr std::size_t kDebugWords = sizeof(AsyncioDebug) / sizeof(std::uint64_t);

// The section's name is not in memory, but nothing else looks like it: offsets that grow.
bool IsPlausible(const AsyncioDebug& d) {
  return d.task_size >= 128 && d.task_size < 512 && d.task_awaited_by < d.task_coro &&
         d.task_coro + 8 == d.task_name && d.task_name < d.task_node && d.task_node + 16 <= d.task_size &&
         d.task_awaited_by >= 64 && d.task_is_task < d.task_coro && d.task_awaited_by_is_set < d.task_coro &&
         d.interpreter_tasks_head + 16 <= d.interpreter_size && d.interpreter_size < (1 << 22) &&
         d.thread_running_loop + 8 == d.thread_running_task && d.thread_running_task < d.thread_tasks_head &&
         d.thread_tasks_head + 16 <= d.thread_size && d.thread_size < (1 << 16);
}

std::optional<AsyncioDebug> FindDebug(const Memory& memory, const process::Maps& maps) {
  for (const process::Maps::Object& object : maps.Objects()) {
    if (!process::BaseName(object.path).starts_with("_asyncio.")) continue;
    for (const DataRange& range : ReadObjectData(memory, maps, object)) {
      for (std::size_t i = 0; i + kDebugWords <= range.words.size(); ++i) {
        AsyncioDebug debug;
        std::memcpy(&debug, range.words.data() + i, sizeof(debug));
        if (IsPlausible(debug)) return debug;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

TaskList::TaskList(const Memory& memory, const Location& location, const process::Maps& maps)
    : memory_(&memory), objects_(ObjectLayout::Of(location)), attributes_(memory, location) {
  // Up to 3.13 as seen in tasks of 3.12.1 and 3.13.0: from the end of the object's head.
  const int minor = location.version.minor;
  if (minor == 12) layout_ = {.state = 72, .waiter = 112, .coroutine = 120, .name = 128, .end = 136};
  if (minor == 13) layout_ = {.state = 80, .waiter = 96, .coroutine = 104, .name = 112, .end = 120};
  if (minor == 14) FindLayout(maps);
}

void TaskList::FindLayout(const process::Maps& maps) {
  const auto debug = FindDebug(*memory_, maps);
  if (!debug) return;
  const auto from_value = [&](std::uint64_t offset) {
    return static_cast<std::uint32_t>(offset) - objects_.value;
  };
  layout_.coroutine = from_value(debug->task_coro);
  layout_.name = from_value(debug->task_name);
  layout_.waiter = layout_.coroutine - 8;
  layout_.state = from_value(debug->task_awaited_by) + 8;
  layout_.end = layout_.name + 8;
  node_ = static_cast<std::uint32_t>(debug->task_node);
  thread_list_ = static_cast<std::uint32_t>(debug->thread_tasks_head);
  interpreter_list_ = static_cast<std::uint32_t>(debug->interpreter_tasks_head);
}

Result<std::vector<RemoteAddress>> TaskList::Find(const InterpreterState& interpreter) const {
  std::vector<RemoteAddress> tasks;
  if (node_ != kAbsent) {
    RETURN_IF_ERROR(AddList(interpreter.address + interpreter_list_, tasks));
    for (const ThreadState& thread : interpreter.threads) {
      RETURN_IF_ERROR(AddList(thread.address + thread_list_, tasks));
    }
  } else {
    ASSIGN_OR_RETURN(const auto module, attributes_.FindModule(interpreter.address, "asyncio.tasks"));
    if (!module) return tasks;
    ASSIGN_OR_RETURN(const auto scheduled, attributes_.FindVariable(module, "_scheduled_tasks"));
    if (scheduled) {
      ASSIGN_OR_RETURN(const auto set, attributes_.FindAttribute(scheduled, "data"));
      if (set) RETURN_IF_ERROR(AddSet(set, true, tasks));
    }
    ASSIGN_OR_RETURN(const auto eager, attributes_.FindVariable(module, "_eager_tasks"));
    if (eager) RETURN_IF_ERROR(AddSet(eager, false, tasks));
  }
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return tasks;
}

Result<void> TaskList::AddSet(RemoteAddress set, bool is_weak, std::vector<RemoteAddress>& tasks) const {
  ASSIGN_OR_RETURN(const Items items, ReadSet(*memory_, objects_, set, kMaxListed));
  if (!is_weak) {
    tasks.insert(tasks.end(), items.items.begin(), items.items.end());
    return {};
  }
  ASSIGN_OR_RETURN(const Blocks references, Blocks::Read(*memory_, items.items, objects_.value + 8U));
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    const RemoteAddress task = references[i].GetPointer(objects_.value);
    if (task) tasks.push_back(task);
  }
  return {};
}

// A circle of {next, previous} in which `head` is no task.
Result<void> TaskList::AddList(RemoteAddress head, std::vector<RemoteAddress>& tasks) const {
  RemoteAddress before = head;
  ASSIGN_OR_RETURN(RemoteAddress at, memory_->ReadValue(head.As<RemoteAddress>()));
  for (std::size_t i = 0; at && at != head; ++i) {
    if (i >= kMaxListed) return Moved();
    ASSIGN_OR_RETURN(const Block node, Block::Read(*memory_, at, 16));
    if (node.GetPointer(8) != before) return Moved();
    tasks.push_back({at.address - node_});
    before = at;
    at = node.GetPointer(0);
  }
  return {};
}

}  // namespace probing::cpython
