#include "cpython/await_chain.h"

#include <string>

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxAwaits = 256;    // of one task
constexpr std::size_t kMaxObjects = 1024;  // those in between included
constexpr std::uint64_t kTagBits = 7;

// Of PyCoroObject, PyGenObject and PyAsyncGenObject, from the end of the object's head. Since 3.11 the frame
// is a part of it, before it is what the first field points to.
constexpr int kFirstWithFrameInside = 11;
constexpr std::uint32_t kFrameState311 = 59;
constexpr std::uint32_t kFrame311 = 64;
constexpr std::uint32_t kFrameState = 51;  // since 3.12
constexpr std::uint32_t kFrame = 56;

// The states of a frame, by version: less than `executing` is not started or suspended, more is done.
struct FrameStates {
  std::int8_t created, executing;
  std::int8_t first_awaiting, last_awaiting;  // since 3.13; before, it is suspended for whatever reason
};
constexpr FrameStates StatesOf(int minor) {
  if (minor >= 15) return {.created = 0, .executing = 4, .first_awaiting = 2, .last_awaiting = 3};
  return {.created = static_cast<std::int8_t>(minor <= 12 ? -2 : -3),
          .executing = 0,
          .first_awaiting = -1,
          .last_awaiting = -1};
}

constexpr std::uint8_t kYieldFrom = 72;        // the instruction, up to 3.10
constexpr std::uint8_t kResumeAfterAwait = 2;  // or more: the argument of RESUME in 3.11 and 3.12

// An opcode and an argument; up to 3.5 an opcode alone, if it has no argument, as the one we look for.
constexpr std::uint64_t InstructionBytes(int minor) { return minor <= 5 ? 1 : 2; }

Error Moved() { return {Code::kFailed, "the task moved while it was read", ""}; }

}  // namespace

AwaitChainReader::AwaitChainReader(const Memory& memory, const Location& location, const StackReader& stacks)
    : memory_(&memory),
      offsets_(location.offsets),
      objects_(ObjectLayout::Of(location)),
      attributes_(memory, location),
      stacks_(&stacks),
      minor_(location.version.minor) {}

Result<AwaitChain> AwaitChainReader::Read(RemoteAddress coroutine) const {
  AwaitChain chain;
  RemoteAddress at = coroutine;
  for (std::size_t i = 0; at && i < kMaxObjects && chain.frames.size() < kMaxAwaits; ++i) {
    ASSIGN_OR_RETURN(const Kind kind, KindOf(at));
    if (kind == Kind::kOther) break;
    if (kind == Kind::kPointer) {
      ASSIGN_OR_RETURN(at, memory_->ReadValue((at + objects_.value).As<RemoteAddress>()));
      continue;
    }
    ASSIGN_OR_RETURN(const Suspension suspension, ReadSuspension(at, kind));
    if (suspension.state == State::kExecuting) {
      chain.is_running = true;
      if (chain.frames.empty() && suspension.frame.code) chain.frames.push_back(suspension.frame);
    }
    if (suspension.state >= State::kExecuting) break;
    chain.frames.push_back(suspension.frame);
    if (!suspension.awaits) break;
    ASSIGN_OR_RETURN(at, ReadTopOfStack(suspension.frame.address));
  }
  return chain;
}

Result<AwaitChainReader::Kind> AwaitChainReader::KindOf(RemoteAddress object) const {
  ASSIGN_OR_RETURN(const std::string type, attributes_.TypeName(object));
  if (type == "coroutine") return Kind::kCoroutine;
  if (type == "generator") return Kind::kGenerator;
  if (type == "async_generator") return Kind::kAsyncGenerator;
  // What `await`, `async for`, athrow() or aclose(), and anext() with a default make: their first field
  // points to it.
  const bool is_pointer = type == "coroutine_wrapper" || type == "async_generator_asend" ||
                          type == "async_generator_athrow" || type == "anext_awaitable";
  return is_pointer ? Kind::kPointer : Kind::kOther;
}

Result<AwaitChainReader::Suspension> AwaitChainReader::ReadSuspension(RemoteAddress generator,
                                                                      Kind kind) const {
  const RemoteAddress value = generator + objects_.value;
  const bool is_inside = minor_ >= kFirstWithFrameInside;
  const FrameStates states = StatesOf(minor_);
  RemoteAddress frame = value + (minor_ == kFirstWithFrameInside ? kFrame311 : kFrame);
  std::int8_t state = 0;
  Suspension suspension;
  if (is_inside) {
    const std::uint32_t at = minor_ == kFirstWithFrameInside ? kFrameState311 : kFrameState;
    ASSIGN_OR_RETURN(state, memory_->ReadValue((value + at).As<std::int8_t>()));
    if (state == states.executing) {
      suspension.state = State::kExecuting;
      const auto running = stacks_->ReadWaiting({frame});
      if (running.ok()) suspension.frame = running->front();
    }
    if (state >= states.executing) return suspension;
  } else {
    ASSIGN_OR_RETURN(frame, memory_->ReadValue(value.As<RemoteAddress>()));
    if (!frame) return suspension;  // done
  }
  ASSIGN_OR_RETURN(const auto frames, stacks_->ReadWaiting({frame}));
  suspension.frame = frames.front();
  bool is_new = false;
  if (is_inside) {
    is_new = state == states.created;
  } else {
    if (suspension.frame.is_executing) {
      suspension.state = State::kExecuting;
      return suspension;
    }
    is_new = static_cast<std::int64_t>(suspension.frame.instruction) < 0;
  }
  suspension.state = is_new ? State::kCreated : State::kSuspended;
  if (is_new) return suspension;
  if (kind == Kind::kCoroutine) {
    suspension.awaits = true;  // it has no other reason to stand still
  } else if (minor_ >= 13) {
    suspension.awaits = state >= states.first_awaiting && state <= states.last_awaiting;
  } else {
    ASSIGN_OR_RETURN(suspension.awaits, IsAwaiting(suspension.frame));
  }
  return suspension;
}

// By the instruction with which a suspended frame goes on, up to 3.12.
Result<bool> AwaitChainReader::IsAwaiting(const RawFrame& frame) const {
  if (minor_ >= kFirstWithFrameInside) {
    const RemoteAddress argument{frame.instruction + InstructionBytes(minor_) + 1};
    ASSIGN_OR_RETURN(const auto resumes, memory_->ReadValue(argument.As<std::uint8_t>()));
    return resumes >= kResumeAfterAwait;
  }
  const RemoteAddress pointer = frame.code + offsets_.code.bytecode_object;
  ASSIGN_OR_RETURN(const RemoteAddress bytes, memory_->ReadValue(pointer.As<RemoteAddress>()));
  const RemoteAddress next = bytes + offsets_.bytes.data +
                             frame.instruction * offsets_.instruction_index_unit + InstructionBytes(minor_);
  ASSIGN_OR_RETURN(const auto opcode, memory_->ReadValue(next.As<std::uint8_t>()));
  return opcode == kYieldFrom;
}

Result<RemoteAddress> AwaitChainReader::ReadTopOfStack(RemoteAddress frame) const {
  RemoteAddress top;
  if (offsets_.frame.stack_pointer != kAbsent) {
    ASSIGN_OR_RETURN(top, memory_->ReadValue((frame + offsets_.frame.stack_pointer).As<RemoteAddress>()));
    if (top.address < frame.address + offsets_.frame.locals + 8) return Moved();
    top = {top.address - 8};
  } else {
    RemoteAddress first = frame + offsets_.frame.locals;
    if (offsets_.frame.value_stack != kAbsent) {
      ASSIGN_OR_RETURN(first, memory_->ReadValue((frame + offsets_.frame.value_stack).As<RemoteAddress>()));
    }
    ASSIGN_OR_RETURN(const auto count,
                     memory_->ReadValue((frame + offsets_.frame.stack_count).As<std::int32_t>()));
    if (count <= 0) return Moved();
    top = first + 8 * static_cast<std::uint64_t>(count - 1);
  }
  ASSIGN_OR_RETURN(RemoteAddress awaited, memory_->ReadValue(top.As<RemoteAddress>()));
  awaited.address &= ~kTagBits;
  return awaited;
}

}  // namespace probing::cpython
