#include "cpython/tasks.h"

#include <algorithm>

#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxTasks = 1000;  // read
constexpr std::size_t kMaxNameCharacters = 4096;
constexpr int kAttempts = 3;
constexpr std::uint64_t kMaxLoopBytes = 4096;  // of an event loop made in C; uvloop's goes on with a buffer

Error NotFound() { return {Code::kNotFound, "no task that could be read", ""}; }
Error Moved() { return {Code::kFailed, "the task moved while it was read", ""}; }

bool IsSame(const std::vector<RawFrame>& a, const std::vector<RawFrame>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const RawFrame& x, const RawFrame& y) {
    return x.address == y.address && x.code == y.code && x.instruction == y.instruction;
  });
}

}  // namespace

TaskReader::TaskReader(const Memory& memory, const Location& location, const process::Maps& maps,
                       StackReader& stacks)
    : memory_(&memory),
      offsets_(location.offsets),
      attributes_(memory, location),
      stacks_(&stacks),
      list_(memory, location, maps),
      futures_(memory, location, list_.own_layout()),
      chains_(memory, location, stacks),
      awaited_by_(memory, location, futures_) {}

TaskReader::Found TaskReader::Read(const InterpreterState& interpreter) {
  Found found;
  running_.clear();
  Result<std::vector<RemoteAddress>> tasks = Moved();
  for (int i = 0; i < kAttempts && !tasks.ok(); ++i) tasks = list_.Find(interpreter);
  if (!tasks.ok()) {
    found.unknown = tasks.error().message;
    return found;
  }
  for (const RemoteAddress address : *tasks) {
    if (found.tasks.size() >= kMaxTasks) {
      ++found.count;
      continue;
    }
    Result<FoundTask> task = Moved();
    for (int i = 0; i < kAttempts && !task.ok() && task.error().code != Code::kNotFound; ++i) {
      task = ReadTask(address, interpreter);
    }
    if (!task.ok() && task.error().code == Code::kNotFound) continue;
    ++found.count;
    if (task.ok()) found.tasks.push_back(std::move(*task));
  }
  AwaitedByReader::WaitingFor waiting;
  for (const FoundTask& one : found.tasks) {
    if (one.waiter) waiting.emplace(one.waiter.address, one.task.id);
  }
  for (FoundTask& one : found.tasks) one.task.awaited_by = awaited_by_.Find({one.task.id}, waiting);
  return found;
}

Result<TaskReader::FoundTask> TaskReader::ReadTask(RemoteAddress address,
                                                   const InterpreterState& interpreter) {
  ASSIGN_OR_RETURN(const TaskFields before, futures_.ReadTask(address));
  if (!before.is_pending || !before.coroutine) return NotFound();
  FoundTask found;
  found.task.id = address.address;
  ASSIGN_OR_RETURN(found.task.name, ReadName(before.name));
  ASSIGN_OR_RETURN(const AwaitChain chain, chains_.Read(before.coroutine));
  if (chain.is_running) {
    found.task.state = Task::State::kRunning;
    const auto own = stacks_->DescribeWaiting(chain.frames);
    if (own.ok() && !own->empty()) running_[found.task.id] = own->front().function;
  } else {
    found.task.state = before.waiter ? Task::State::kWaiting : Task::State::kReady;
    ASSIGN_OR_RETURN(found.task.frames, stacks_->DescribeWaiting(chain.frames));
    std::reverse(found.task.frames.begin(), found.task.frames.end());
    ASSIGN_OR_RETURN(const TaskFields after, futures_.ReadTask(address));
    ASSIGN_OR_RETURN(const AwaitChain again, chains_.Read(before.coroutine));
    const bool same =
        after.waiter == before.waiter && after.coroutine == before.coroutine && !again.is_running;
    if (!same || !IsSame(chain.frames, again.frames)) return Moved();
  }
  found.waiter = before.waiter;
  found.pthread = ThreadOf(before.loop, interpreter);
  return found;
}

// Since 3.12 a name that nobody chose is kept as a number until somebody asks for it. Before 3.8 there are
// none.
Result<std::string> TaskReader::ReadName(RemoteAddress name) const {
  if (!name) return std::string();
  ASSIGN_OR_RETURN(const std::string type, attributes_.TypeName(name));
  if (type == "int") {
    ASSIGN_OR_RETURN(const std::uint64_t number, attributes_.ReadUnsigned(name));
    return "Task-" + std::to_string(number);
  }
  return ReadUnicode(*memory_, offsets_, name, kMaxNameCharacters);
}

std::uint64_t TaskReader::ThreadOf(RemoteAddress loop, const InterpreterState& interpreter) {
  const auto [known, is_new] = thread_of_.try_emplace(loop.address, 0);
  if (!is_new) return known->second;
  const auto ident = attributes_.FindAttribute(loop, "_thread_id");
  if (!ident.ok() || !*ident) return known->second = FindThreadIn(loop, interpreter);
  const auto type = attributes_.TypeName(*ident);
  const auto number =
      type.ok() && *type == "int" ? attributes_.ReadUnsigned(*ident) : Result<std::uint64_t>(NotFound());
  if (number.ok()) known->second = *number;
  return known->second;
}

// uvloop's loop is a class in C. Its field with the thread has no name, but only that one has such a value.
std::uint64_t TaskReader::FindThreadIn(RemoteAddress loop, const InterpreterState& interpreter) const {
  const ObjectLayout& layout = attributes_.layout();
  const auto type = memory_->ReadValue((loop + layout.type).As<RemoteAddress>());
  if (!type.ok()) return 0;
  const auto size = memory_->ReadValue((*type + layout.type_basic_size).As<std::uint64_t>());
  if (!size.ok()) return 0;
  std::vector<std::uint64_t> words(std::min<std::uint64_t>(*size, kMaxLoopBytes) / sizeof(std::uint64_t));
  if (!memory_->Read(loop, std::as_writable_bytes(std::span(words))).ok()) return 0;
  for (const ThreadState& thread : interpreter.threads) {
    if (std::find(words.begin(), words.end(), thread.pthread) != words.end()) return thread.pthread;
  }
  return 0;
}

}  // namespace probing::cpython
