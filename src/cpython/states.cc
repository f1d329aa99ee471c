#include "cpython/states.h"

#include <algorithm>
#include <unordered_set>

#include "cpython/block.h"

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

ThreadState ToThreadState(RemoteAddress address, const BlockView& block, const Offsets::Thread& offsets) {
  return {address, block.Get<std::uint64_t>(offsets.thread_id),
          block.Get<std::uint64_t>(offsets.native_thread_id)};
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
    threads.push_back(ToThreadState(at, block.view(), offsets.thread));
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
    std::int64_t id = 0;
    if (location.offsets.interpreter.id != kAbsent) {
      ASSIGN_OR_RETURN(id, memory.ReadValue((at + location.offsets.interpreter.id).As<std::int64_t>()));
    }
    interpreters.push_back({at, id, std::move(threads)});
    ASSIGN_OR_RETURN(at, memory.ReadValue((at + location.offsets.interpreter.next).As<RemoteAddress>()));
  }
  if (location.offsets.interpreter.id == kAbsent) {
    // The newest comes first.
    for (std::size_t i = 0; i < interpreters.size(); ++i) {
      interpreters[i].id = static_cast<std::int64_t>(interpreters.size() - 1 - i);
    }
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

}  // namespace

Result<std::vector<InterpreterState>> ReadStates(const Memory& memory, const Location& location) {
  auto states = TryToReadStates(memory, location);
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

bool AreStill(const Memory& memory, const Location& location, const std::vector<InterpreterState>& states,
              Changes changes) {
  const Offsets& offsets = location.offsets;
  const std::size_t thread_bytes = EndOfFields(offsets.thread);
  // Pointers that lead from one part of the lists to the next, and where they led.
  std::vector<RemoteAddress> links;
  std::vector<RemoteAddress> expected;
  std::vector<RemoteAddress> threads;
  RemoteAddress next_interpreter = location.first_interpreter;
  for (const InterpreterState& interpreter : states) {
    links.push_back(next_interpreter);
    expected.push_back(interpreter.address);
    next_interpreter = interpreter.address + offsets.interpreter.next;
    links.push_back(interpreter.address + offsets.interpreter.threads_head);
    expected.push_back(interpreter.threads.empty() ? RemoteAddress{} : interpreter.threads.front().address);
    if (changes == Changes::kNew) continue;
    for (const ThreadState& thread : interpreter.threads) threads.push_back(thread.address);
  }
  links.push_back(next_interpreter);
  expected.emplace_back();

  std::vector<RemoteAddress> found(links.size());
  std::vector<std::byte> bytes(threads.size() * thread_bytes);
  std::vector<Memory::Piece> pieces;
  pieces.reserve(links.size() + threads.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    pieces.push_back({links[i], std::as_writable_bytes(std::span(&found[i], 1))});
  }
  for (std::size_t i = 0; i < threads.size(); ++i) {
    pieces.push_back({threads[i], std::span(bytes).subspan(i * thread_bytes, thread_bytes)});
  }
  if (!memory.ReadPieces(pieces).ok() || found != expected) return false;
  if (changes == Changes::kNew) return true;
  std::size_t index = 0;
  for (const InterpreterState& interpreter : states) {
    for (std::size_t i = 0; i < interpreter.threads.size(); ++i, ++index) {
      const BlockView block{std::span(bytes).subspan(index * thread_bytes, thread_bytes)};
      const bool is_last = i + 1 == interpreter.threads.size();
      const RemoteAddress next = is_last ? RemoteAddress{} : interpreter.threads[i + 1].address;
      if (block.GetPointer(offsets.thread.next) != next) return false;
      if (ToThreadState(threads[index], block, offsets.thread) != interpreter.threads[i]) return false;
    }
  }
  return true;
}

std::optional<bool> IsCollecting(const Memory& memory, const Location& location,
                                 const InterpreterState& interpreter) {
  const Offsets& offsets = location.offsets;
  RemoteAddress at;
  if (offsets.interpreter.collecting != kAbsent) {
    at = interpreter.address + offsets.interpreter.collecting;
  } else if (offsets.runtime.collecting != kAbsent) {
    at = {location.first_interpreter.address - offsets.runtime.interpreters_head +
          offsets.runtime.collecting};
  } else {
    return std::nullopt;
  }
  const auto collecting = memory.ReadValue(at.As<std::int32_t>());
  if (!collecting.ok() || (*collecting != 0 && *collecting != 1)) return std::nullopt;
  return *collecting == 1;
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
