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
constexpr int kFirstWithLists = 14;
constexpr std::size_t kMaxWords = 1 << 14;  // of the variables of _asyncio: it has 1,500

Error Moved() { return {Code::kFailed, "the list of tasks changed while it was read", ""}; }

Error Unknown() { return {Code::kNotFound, "this Python does not say where its tasks are", ""}; }

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

// In the library of the module, or in the interpreter's own file where it is built in.
std::optional<AsyncioDebug> FindDebug(const Memory& memory, const process::Maps& maps,
                                      const std::string& interpreter) {
  for (const process::Maps::Object& object : maps.Objects()) {
    const bool may_have_it =
        process::BaseName(object.path).starts_with("_asyncio.") || object.path == interpreter;
    if (!may_have_it) continue;
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
    : memory_(&memory),
      objects_(ObjectLayout::Of(location)),
      attributes_(memory, location),
      minor_(location.version.minor) {
  if (minor_ >= kFirstWithLists) FindLayout(maps, location.object);
  if (minor_ == 6) FindSetOfC(maps);
}

// A variable without a name, but it is the only one that is a WeakSet.
void TaskList::FindSetOfC(const process::Maps& maps) {
  for (const process::Maps::Object& object : maps.Objects()) {
    if (!process::BaseName(object.path).starts_with("_asyncio.")) continue;
    for (const DataRange& range : ReadObjectData(*memory_, maps, object)) {
      if (range.words.size() > kMaxWords) continue;
      for (const std::uint64_t word : range.words) {
        if (word % alignof(void*) != 0 || maps.Find(word) == nullptr) continue;
        const auto type = attributes_.TypeName({word});
        if (type.ok() && *type == "WeakSet") set_of_c_ = {word};
      }
    }
  }
}

void TaskList::FindLayout(const process::Maps& maps, const std::string& interpreter) {
  const auto debug = FindDebug(*memory_, maps, interpreter);
  if (!debug) return;
  const auto from_value = [&](std::uint64_t offset) {
    return static_cast<std::uint32_t>(offset) - objects_.value;
  };
  layout_.coroutine = from_value(debug->task_coro);
  layout_.name = from_value(debug->task_name);
  layout_.waiter = layout_.coroutine - 8;
  layout_.state = from_value(debug->task_awaited_by) + 8;
  node_ = static_cast<std::uint32_t>(debug->task_node);
  thread_list_ = static_cast<std::uint32_t>(debug->thread_tasks_head);
  interpreter_list_ = static_cast<std::uint32_t>(debug->interpreter_tasks_head);
}

Result<std::vector<RemoteAddress>> TaskList::Find(const InterpreterState& interpreter) const {
  std::vector<RemoteAddress> tasks;
  ASSIGN_OR_RETURN(const auto module, attributes_.FindModule(interpreter.address, "asyncio.tasks"));
  if (!module) return tasks;
  if (minor_ >= kFirstWithLists) {
    if (node_ == kAbsent) return Unknown();
    RETURN_IF_ERROR(AddList(interpreter.address + interpreter_list_, tasks));
    for (const ThreadState& thread : interpreter.threads) {
      RETURN_IF_ERROR(AddList(thread.address + thread_list_, tasks));
    }
  }
  ASSIGN_OR_RETURN(const auto weak_sets, FindWeakSets(module));
  if (weak_sets.empty()) return Unknown();
  for (const RemoteAddress weak : weak_sets) {
    ASSIGN_OR_RETURN(const auto set, attributes_.FindAttribute(weak, "data"));
    if (!set) return Unknown();
    RETURN_IF_ERROR(AddSet(set, true, tasks));
  }
  ASSIGN_OR_RETURN(const auto eager, attributes_.FindVariable(module, "_eager_tasks"));
  if (eager) RETURN_IF_ERROR(AddSet(eager, false, tasks));
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return tasks;
}

Result<std::vector<RemoteAddress>> TaskList::FindWeakSets(RemoteAddress module) const {
  std::vector<RemoteAddress> sets;
  if (minor_ >= 7) {
    ASSIGN_OR_RETURN(const auto set,
                     attributes_.FindVariable(module, minor_ >= 12 ? "_scheduled_tasks" : "_all_tasks"));
    if (set) sets.push_back(set);
    return sets;
  }
  if (set_of_c_) sets.push_back(set_of_c_);
  ASSIGN_OR_RETURN(const auto python_class, attributes_.FindVariable(module, "_PyTask"));
  if (!python_class) return sets;
  ASSIGN_OR_RETURN(const auto set, attributes_.FindInClass(python_class, "_all_tasks"));
  if (set) sets.push_back(set);
  return sets;
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
