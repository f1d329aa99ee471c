#include "cpython/states.h"

#include <algorithm>
#include <unordered_set>

#include "cpython/block.h"
#include "cpython/prefetched_memory.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxInterpreters = 1024;
constexpr std::size_t kMaxThreads = 1 << 16;
constexpr int kAttempts = 20;

Error Changed() {
  return {Code::kFailed, "the list of Python threads changed while it was read", "try again"};
}

std::size_t EndOfFields(const Offsets::Thread& thread) {
  std::size_t end = 0;
  for (const std::uint32_t field :
       {thread.next, thread.interpreter, thread.thread_id, thread.native_thread_id}) {
    if (field != kAbsent) end = std::max<std::size_t>(end, field + std::size_t{8});
  }
  return end;
}

Result<std::vector<ThreadState>> ReadThreads(const Memory& memory, const Offsets& offsets,
                                             RemoteAddress interpreter) {
  ASSIGN_OR_RETURN(RemoteAddress at,
                   memory.ReadValue((interpreter + offsets.interpreter.threads_head).As<RemoteAddress>()));
  std::vector<ThreadState> threads;
  std::unordered_set<std::uint64_t> seen;
  while (at) {
    if (threads.size() >= kMaxThreads || !seen.insert(at.address).second) return Changed();
    ASSIGN_OR_RETURN(const Block block, Block::Read(memory, at, EndOfFields(offsets.thread)));
    // A thread state that was freed meanwhile does not point back any more.
    if (block.GetPointer(offsets.thread.interpreter) != interpreter) return Changed();
    threads.push_back({at, block.Get<std::uint64_t>(offsets.thread.thread_id),
                       block.Get<std::uint64_t>(offsets.thread.native_thread_id)});
    at = block.GetPointer(offsets.thread.next);
  }
  return threads;
}

Result<std::vector<InterpreterState>> TryToReadStates(const Memory& memory, const Location& location) {
  ASSIGN_OR_RETURN(RemoteAddress at, memory.ReadValue(location.first_interpreter.As<RemoteAddress>()));
  std::vector<InterpreterState> interpreters;
  std::unordered_set<std::uint64_t> seen;
  while (at) {
    if (interpreters.size() >= kMaxInterpreters || !seen.insert(at.address).second) return Changed();
    ASSIGN_OR_RETURN(auto threads, ReadThreads(memory, location.offsets, at));
    interpreters.push_back({at, std::move(threads)});
    ASSIGN_OR_RETURN(at, memory.ReadValue((at + location.offsets.interpreter.next).As<RemoteAddress>()));
  }
  return interpreters;
}

// null when nobody holds it.
Result<RemoteAddress> ReadGilHolder(const Memory& memory, const Location& location,
                                    RemoteAddress interpreter) {
  if (location.current_thread) return memory.ReadValue(location.current_thread.As<RemoteAddress>());
  const Offsets& offsets = location.offsets;
  if (offsets.interpreter.gil == kAbsent) return RemoteAddress{};
  ASSIGN_OR_RETURN(const RemoteAddress gil,
                   memory.ReadValue((interpreter + offsets.interpreter.gil).As<RemoteAddress>()));
  if (!gil) return RemoteAddress{};
  if (offsets.gil.enabled != kAbsent) {
    ASSIGN_OR_RETURN(const std::int32_t enabled,
                     memory.ReadValue((gil + offsets.gil.enabled).As<std::int32_t>()));
    if (enabled == 0) return RemoteAddress{};
  }
  ASSIGN_OR_RETURN(const std::int32_t locked,
                   memory.ReadValue((gil + offsets.gil.locked).As<std::int32_t>()));
  if (locked != 1) return RemoteAddress{};
  return memory.ReadValue((gil + offsets.gil.last_holder).As<RemoteAddress>());
}

// Every place TryToReadStates() looks at when nothing has changed since `last`.
std::vector<PrefetchedMemory::Wanted> PlacesOf(const Location& location,
                                               const std::vector<InterpreterState>& last) {
  const std::size_t thread_bytes = EndOfFields(location.offsets.thread);
  std::vector<PrefetchedMemory::Wanted> places{{location.first_interpreter, sizeof(RemoteAddress)}};
  for (const InterpreterState& interpreter : last) {
    const Offsets::Interpreter& fields = location.offsets.interpreter;
    places.push_back({interpreter.address + fields.next, sizeof(RemoteAddress)});
    places.push_back({interpreter.address + fields.threads_head, sizeof(RemoteAddress)});
    for (const ThreadState& thread : interpreter.threads) places.push_back({thread.address, thread_bytes});
  }
  return places;
}

}  // namespace

Result<std::vector<InterpreterState>> ReadStates(const Memory& memory, const Location& location,
                                                 const std::vector<InterpreterState>& last) {
  PrefetchedMemory prefetched(memory);
  if (!last.empty()) prefetched.Fetch(PlacesOf(location, last));
  auto states = TryToReadStates(prefetched, location);
  for (int i = 1; i < kAttempts && !states.ok(); ++i) {
    if (states.error().code != Code::kFailed) break;  // the process is gone, or may not be read
    states = TryToReadStates(memory, location);
  }
  if (states.ok() && states->empty()) {
    return Error{Code::kFailed, "Python is in this process but does not run (it starts or ends)",
                 "try again"};
  }
  return states;
}

std::optional<RemoteAddress> FindGilHolder(const Memory& memory, const Location& location,
                                           const InterpreterState& interpreter) {
  const auto holder = ReadGilHolder(memory, location, interpreter.address);
  if (!holder.ok()) return std::nullopt;
  const bool is_ours = std::any_of(interpreter.threads.begin(), interpreter.threads.end(),
                                   [&](const ThreadState& thread) { return thread.address == *holder; });
  return is_ours ? std::optional(*holder) : std::nullopt;
}

}  // namespace probing::cpython
