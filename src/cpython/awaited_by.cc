#include "cpython/awaited_by.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>

#include "cpython/block.h"
#include "cpython/containers.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxFutures = 32;    // between two tasks
constexpr std::size_t kMaxCallbacks = 64;  // of one future
constexpr std::size_t kMaxCells = 32;      // of one closure, or arguments
constexpr int kMaxNesting = 4;             // of functools.partial

}  // namespace

AwaitedByReader::AwaitedByReader(const Memory& memory, const Location& location, FutureReader& futures)
    : memory_(&memory),
      objects_(ObjectLayout::Of(location)),
      attributes_(memory, location),
      futures_(&futures),
      closure_(location.version.minor <= 9 ? 32 : 56) {}

std::vector<std::uint64_t> AwaitedByReader::Find(RemoteAddress task, const WaitingFor& waiting) {
  std::set<std::uint64_t> found;
  std::vector<RemoteAddress> ahead{task};
  std::unordered_set<std::uint64_t> seen{task.address};
  for (std::size_t i = 0; i < ahead.size() && i < kMaxFutures; ++i) {
    const auto [first, last] = waiting.equal_range(ahead[i].address);
    for (auto at = first; at != last; ++at) found.insert(at->second);
    // A task that is woken is an answer; what it wakes is another question.
    const auto callbacks = futures_->ReadCallbacks(ahead[i], kMaxCallbacks);
    if (!callbacks.ok()) continue;
    for (const RemoteAddress callback : *callbacks) {
      Woken woken;
      if (!AddCallback(callback, 0, woken).ok()) continue;
      for (const RemoteAddress other : woken.tasks) found.insert(other.address);
      for (const RemoteAddress future : woken.futures) {
        if (seen.insert(future.address).second) ahead.push_back(future);
      }
    }
  }
  found.erase(task.address);
  return {found.begin(), found.end()};
}

Result<void> AwaitedByReader::AddCallback(RemoteAddress callback, int depth, Woken& woken) {
  if (!callback || depth > kMaxNesting) return {};
  ASSIGN_OR_RETURN(const std::string type, attributes_.TypeName(callback));
  if (type == "function") return AddClosure(callback, woken);
  if (type != "functools.partial" && type != "method") return {};
  // {function, arguments} or {function, self}
  ASSIGN_OR_RETURN(const Block block, Block::Read(*memory_, callback + objects_.value, 16));
  if (type == "functools.partial") {
    RETURN_IF_ERROR(AddCallback(block.GetPointer(0), depth + 1, woken));
    ASSIGN_OR_RETURN(const Items arguments, ReadTuple(*memory_, objects_, block.GetPointer(8), kMaxCells));
    for (const RemoteAddress argument : arguments.items) RETURN_IF_ERROR(AddIfFuture(argument, woken));
    return {};
  }
  ASSIGN_OR_RETURN(const std::string self, attributes_.TypeName(block.GetPointer(8)));
  if (self != "TaskGroup") return {};
  ASSIGN_OR_RETURN(const auto parent, attributes_.FindAttribute(block.GetPointer(8), "_parent_task"));
  if (!parent) return {};
  const auto fields = futures_->ReadTask(parent);
  if (fields.ok() && fields->is_pending) woken.tasks.push_back(parent);
  return {};
}

Result<void> AwaitedByReader::AddClosure(RemoteAddress function, Woken& woken) {
  const RemoteAddress at = function + objects_.value + closure_;
  ASSIGN_OR_RETURN(const auto closure, memory_->ReadValue(at.As<RemoteAddress>()));
  if (!closure) return {};
  ASSIGN_OR_RETURN(const Items cells, ReadTuple(*memory_, objects_, closure, kMaxCells));
  for (const RemoteAddress cell : cells.items) {
    ASSIGN_OR_RETURN(const auto content, memory_->ReadValue((cell + objects_.value).As<RemoteAddress>()));
    if (content) RETURN_IF_ERROR(AddIfFuture(content, woken));
  }
  return {};
}

// Tasks are never made done by a callback: one in a closure is there for other reasons.
Result<void> AwaitedByReader::AddIfFuture(RemoteAddress object, Woken& woken) {
  ASSIGN_OR_RETURN(const bool is_future, futures_->IsFuture(object));
  if (!is_future || futures_->ReadTask(object).ok()) return {};
  woken.futures.push_back(object);
  return {};
}

}  // namespace probing::cpython
