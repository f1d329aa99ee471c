#include "cpython/tasks.h"

#include <algorithm>

#include "cpython/block.h"
#include "cpython/text.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxTasks = 1000;  // read
constexpr std::size_t kMaxAwaits = 256;  // of one task
constexpr std::size_t kMaxNameCharacters = 200;
constexpr std::size_t kMaxBases = 16;
constexpr int kAttempts = 3;
constexpr std::uint64_t kTagBits = 7;

// Of PyCoroObject and PyGenObject, from the end of the object's head; the same from 3.12 to 3.14.
constexpr std::uint32_t kFrameState = 51;
constexpr std::uint32_t kFrame = 56;
constexpr std::int8_t kExecuting = 0;  // less: not started or suspended; more: done

constexpr std::uint32_t kPending = 0;  // enum fut_state

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
      objects_(ObjectLayout::Of(location)),
      attributes_(memory, location),
      stacks_(&stacks),
      list_(memory, location, maps),
      layout_(list_.layout()),
      created_state_(location.version.minor == 12 ? -2 : -3) {}

TaskReader::Found TaskReader::Read(const InterpreterState& interpreter) {
  Found found;
  if (!list_.is_known()) return found;
  Result<std::vector<RemoteAddress>> tasks = Moved();
  for (int i = 0; i < kAttempts && !tasks.ok(); ++i) tasks = list_.Find(interpreter);
  if (!tasks.ok()) return found;
  for (const RemoteAddress address : *tasks) {
    if (found.tasks.size() >= kMaxTasks) {
      ++found.count;
      continue;
    }
    Result<FoundTask> task = Moved();
    for (int i = 0; i < kAttempts && !task.ok() && task.error().code != Code::kNotFound; ++i) {
      task = ReadTask(address);
    }
    if (!task.ok() && task.error().code == Code::kNotFound) continue;
    ++found.count;
    if (task.ok()) found.tasks.push_back(std::move(*task));
  }
  return found;
}

Result<TaskReader::FoundTask> TaskReader::ReadTask(RemoteAddress address) {
  ASSIGN_OR_RETURN(const bool is_task, IsTask(address));
  if (!is_task) return NotFound();
  const auto read = [&] { return Block::Read(*memory_, address + objects_.value, layout_.end); };
  ASSIGN_OR_RETURN(const Block before, read());
  const RemoteAddress coroutine = before.GetPointer(layout_.coroutine);
  if (before.Get<std::uint32_t>(layout_.state) != kPending || !coroutine) return NotFound();
  FoundTask found;
  ASSIGN_OR_RETURN(found.task.name, ReadName(before.GetPointer(layout_.name)));
  ASSIGN_OR_RETURN(const Chain chain, ReadChain(coroutine));
  if (chain.is_running) {
    found.task.state = Task::State::kRunning;
  } else {
    const RemoteAddress waiter = before.GetPointer(layout_.waiter);
    found.task.state = waiter ? Task::State::kWaiting : Task::State::kReady;
    ASSIGN_OR_RETURN(found.task.frames, stacks_->DescribeWaiting(chain.frames));
    std::reverse(found.task.frames.begin(), found.task.frames.end());
    ASSIGN_OR_RETURN(const Block after, read());
    ASSIGN_OR_RETURN(const Chain again, ReadChain(coroutine));
    const bool same = after.GetPointer(layout_.waiter) == waiter &&
                      after.GetPointer(layout_.coroutine) == coroutine && !again.is_running;
    if (!same || !IsSame(chain.frames, again.frames)) return Moved();
  }
  found.pthread = ThreadOf(before.GetPointer(0));  // the loop is the first field
  return found;
}

// `_asyncio.Task` or a class made of it.
Result<bool> TaskReader::IsTask(RemoteAddress task) {
  ASSIGN_OR_RETURN(RemoteAddress type, memory_->ReadValue((task + objects_.type).As<RemoteAddress>()));
  const auto [known, is_new] = is_task_.try_emplace(type.address, false);
  for (std::size_t i = 0; is_new && type && i < kMaxBases && !known->second; ++i) {
    ASSIGN_OR_RETURN(const auto name, memory_->ReadValue((type + objects_.type_name).As<RemoteAddress>()));
    ASSIGN_OR_RETURN(const std::string text, memory_->ReadCString(name, kMaxNameCharacters));
    known->second = text == "_asyncio.Task";
    ASSIGN_OR_RETURN(type, memory_->ReadValue((type + objects_.type_base).As<RemoteAddress>()));
  }
  return known->second;
}

// A name that nobody chose is kept as a number until somebody asks for it.
Result<std::string> TaskReader::ReadName(RemoteAddress name) {
  ASSIGN_OR_RETURN(const std::string type, TypeName(name));
  if (type == "int") {
    ASSIGN_OR_RETURN(const std::uint64_t number, attributes_.ReadUnsigned(name));
    return "Task-" + std::to_string(number);
  }
  return ReadUnicode(*memory_, offsets_, name, kMaxNameCharacters);
}

Result<TaskReader::Chain> TaskReader::ReadChain(RemoteAddress coroutine) {
  Chain chain;
  std::vector<RemoteAddress> addresses;
  for (RemoteAddress at = coroutine; at && addresses.size() < kMaxAwaits;) {
    ASSIGN_OR_RETURN(const std::string type, TypeName(at));
    if (type == "coroutine_wrapper") {  // what `await` makes of a coroutine: it points to it
      ASSIGN_OR_RETURN(at, memory_->ReadValue((at + objects_.value).As<RemoteAddress>()));
      continue;
    }
    if (type != "coroutine" && type != "generator") break;
    const RemoteAddress value = at + objects_.value;
    ASSIGN_OR_RETURN(const auto state, memory_->ReadValue((value + kFrameState).As<std::int8_t>()));
    if (state == kExecuting) chain.is_running = true;
    if (state >= kExecuting) break;
    const RemoteAddress frame = value + kFrame;
    addresses.push_back(frame);
    // A generator waits for its own reasons: what is on its stack need not be what it awaits.
    if (state == created_state_ || type == "generator") break;
    RemoteAddress top;
    if (offsets_.frame.stack_pointer != kAbsent) {
      ASSIGN_OR_RETURN(top, memory_->ReadValue((frame + offsets_.frame.stack_pointer).As<RemoteAddress>()));
      if (top.address < frame.address + offsets_.frame.locals + 8) return Moved();
      top = {top.address - 8};
    } else {
      ASSIGN_OR_RETURN(const auto count,
                       memory_->ReadValue((frame + offsets_.frame.stack_count).As<std::int32_t>()));
      if (count <= 0) return Moved();
      top = frame + offsets_.frame.locals + 8 * static_cast<std::uint64_t>(count - 1);
    }
    ASSIGN_OR_RETURN(at, memory_->ReadValue(top.As<RemoteAddress>()));
    at.address &= ~kTagBits;
  }
  ASSIGN_OR_RETURN(chain.frames, stacks_->ReadWaiting(addresses));
  return chain;
}

Result<std::string> TaskReader::TypeName(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const auto type, memory_->ReadValue((object + objects_.type).As<RemoteAddress>()));
  ASSIGN_OR_RETURN(const auto name, memory_->ReadValue((type + objects_.type_name).As<RemoteAddress>()));
  return memory_->ReadCString(name, kMaxNameCharacters);
}

std::uint64_t TaskReader::ThreadOf(RemoteAddress loop) {
  const auto [known, is_new] = thread_of_.try_emplace(loop.address, 0);
  if (!is_new) return known->second;
  const auto ident = attributes_.FindAttribute(loop, "_thread_id");
  if (!ident.ok() || !*ident) return 0;
  const auto type = TypeName(*ident);
  const auto number =
      type.ok() && *type == "int" ? attributes_.ReadUnsigned(*ident) : Result<std::uint64_t>(NotFound());
  if (number.ok()) known->second = *number;
  return known->second;
}

}  // namespace probing::cpython
