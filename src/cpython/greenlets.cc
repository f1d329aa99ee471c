#include "cpython/greenlets.h"

#include <algorithm>
#include <array>

#include "cpython/saved_stack.h"
#include "cpython/tracked_objects.h"

namespace probing::cpython {
namespace {

using process::Memory;
using process::RemoteAddress;

constexpr std::size_t kMaxGreenlets = 1000;  // read
constexpr std::size_t kMaxFrames = 4096;
constexpr int kMaxBases = 16;
constexpr int kAttempts = 3;
constexpr std::size_t kWords = 20;  // of the fields that are looked at: what follows may be another greenlet
constexpr std::size_t kLastStart = 10;   // the range of the stack begins there or before
constexpr std::size_t kFirstAfter = 4;   // the innermost frame follows so many words after that...
constexpr std::size_t kFramesAfter = 5;  // ...or somewhat more: 6 or 7 are known
// Since greenlet 2: PyObject_HEAD, weak references, `__dict__`, a pointer to the fields.
constexpr std::uint32_t kFieldsAfterHead = 16;
constexpr std::uint64_t kSmallObject = 24;  // bytes after the head
// Since 3.11 a PyFrameObject has `f_back` and then a pointer to the frame itself.
constexpr std::uint32_t kFrameAfterHead = 8;
constexpr int kFirstWithFrameApart = 11;
constexpr std::string_view kMainStack = "[stack]";
constexpr std::uint64_t kEndless = ~std::uint64_t{0};  // where the stack of a main greenlet stops

Error NotSuspended() { return {Code::kNotFound, "the greenlet is not suspended", ""}; }
Error Moved() { return {Code::kFailed, "the greenlet was switched to while it was read", ""}; }

bool IsSame(const std::vector<RawFrame>& a, const std::vector<RawFrame>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const RawFrame& x, const RawFrame& y) {
    return x.address == y.address && x.code == y.code && x.instruction == y.instruction;
  });
}

}  // namespace

GreenletReader::GreenletReader(const Memory& memory, const Location& location, StackReader& stacks)
    : memory_(&memory),
      location_(location),
      objects_(ObjectLayout::Of(location)),
      attributes_(memory, location),
      stacks_(&stacks) {}

RemoteAddress GreenletReader::FindClass(const InterpreterState& interpreter) const {
  const auto module = attributes_.FindModule(interpreter.address, "greenlet");
  if (!module.ok() || !*module) return {};
  const auto type = attributes_.FindVariable(*module, "greenlet");
  return type.ok() ? *type : RemoteAddress{};
}

bool GreenletReader::IsMadeOf(RemoteAddress type, RemoteAddress base) const {
  for (int i = 0; i < kMaxBases && type; ++i) {
    if (type == base) return true;
    const auto next = memory_->ReadValue((type + objects_.type_base).As<RemoteAddress>());
    if (!next.ok()) return false;
    type = *next;
  }
  return false;
}

GreenletReader::Found GreenletReader::Read(const InterpreterState& interpreter, const process::Maps& maps,
                                           std::int64_t limit_ms) {
  Found found;
  maps_ = &maps;
  interpreter_ = &interpreter;
  stacks_have_names_ = std::any_of(maps.all().begin(), maps.all().end(),
                                   [](const process::Mapping& one) { return one.path == kMainStack; });
  const RemoteAddress greenlet_class = FindClass(interpreter);
  const auto size = memory_->ReadValue((greenlet_class + objects_.type_basic_size).As<std::uint64_t>());
  if (!size.ok()) {
    found.unknown = size.error().message;
    return found;
  }
  is_inline_ = *size > objects_.value + kSmallObject;
  const TrackedObjects tracked =
      FindTracked(*memory_, location_, interpreter, limit_ms,
                  [&](RemoteAddress type) { return IsMadeOf(type, greenlet_class); });
  found.unknown = tracked.not_all + (tracked.is_out_of_time ? "; --greenlets takes the time" : "");
  for (const RemoteAddress address : tracked.objects) {
    if (found.greenlets.size() >= kMaxGreenlets) {
      const auto state = ReadState(address);
      if (state.ok() && *state) ++found.count;
      continue;
    }
    Result<FoundGreenlet> one = Moved();
    for (int i = 0; i < kAttempts && !one.ok() && one.error().code != Code::kNotFound; ++i) {
      one = ReadOne(address);
    }
    if (!one.ok() && one.error().code == Code::kNotFound) continue;
    ++found.count;
    if (one.ok()) found.greenlets.push_back(std::move(*one));
  }
  // The thread's own part first.
  std::stable_sort(
      found.greenlets.begin(), found.greenlets.end(),
      [](const FoundGreenlet& a, const FoundGreenlet& b) { return a.greenlet.is_main > b.greenlet.is_main; });
  return found;
}

bool GreenletReader::IsFrame(std::uint64_t word) {
  if (word == 0 || word % alignof(void*) != 0 || maps_->Find(word) == nullptr) return false;
  const auto type = memory_->ReadValue((RemoteAddress{word} + objects_.type).As<RemoteAddress>());
  if (!type.ok() || !*type) return false;
  if (frame_type_) return *type == frame_type_;
  const auto name = attributes_.TypeName({word});
  if (!name.ok() || *name != "frame") return false;
  frame_type_ = *type;
  return true;
}

bool GreenletReader::IsStack(const process::Mapping& mapping, std::uint64_t address,
                             RemoteAddress fields) const {
  if (!mapping.writable) return false;
  if (mapping.path == kMainStack) return true;
  // The C library has its record of a thread at the end of the thread's stack.
  const auto is_of = [&](const ThreadState& thread) {
    return mapping.Contains(thread.pthread) && address < thread.pthread;
  };
  if (std::any_of(interpreter_->threads.begin(), interpreter_->threads.end(), is_of)) return true;
  return !stacks_have_names_ && mapping.path.empty() && !mapping.Contains(fields.address);
}

std::optional<GreenletReader::State> GreenletReader::ToState(std::span<const std::uint64_t, 4> words,
                                                             RemoteAddress fields) const {
  const State state{.start = words[0], .stop = words[1], .copy = words[2], .saved_bytes = words[3]};
  if (state.start == 0 || state.start >= state.stop) return std::nullopt;
  const process::Mapping* stack = maps_->Find(state.start);
  if (stack == nullptr || !IsStack(*stack, state.start, fields)) return std::nullopt;
  if (state.stop != kEndless && !stack->Contains(state.stop)) return std::nullopt;
  const std::uint64_t size = std::min(state.stop, stack->end) - state.start;
  if (state.saved_bytes > size || (state.copy != 0) != (state.saved_bytes != 0)) return std::nullopt;
  if (state.copy != 0 && maps_->Find(state.copy) == nullptr) return std::nullopt;
  return state;
}

Result<std::optional<GreenletReader::State>> GreenletReader::ReadState(RemoteAddress greenlet) {
  RemoteAddress fields = greenlet + objects_.value;
  if (!is_inline_) {
    ASSIGN_OR_RETURN(fields, memory_->ReadValue((fields + kFieldsAfterHead).As<RemoteAddress>()));
    if (!fields) return std::optional<State>();
  }
  std::array<std::uint64_t, kWords> words{};
  std::size_t count = kWords;
  // The last ones may be behind the end of the heap.
  while (count > 0 && !memory_->Read(fields, std::as_writable_bytes(std::span(words).first(count))).ok()) {
    count /= 2;
  }
  std::optional<State> state;
  std::size_t at = 0;
  for (; at <= kLastStart && at + 4 <= count; ++at) {
    state = ToState(std::span<const std::uint64_t, 4>(words.data() + at, 4), fields);
    if (state) break;
  }
  if (!state) return state;
  const std::size_t first = at + kFirstAfter;
  for (std::size_t i = first; i < std::min(count, first + kFramesAfter) && !state->frame; ++i) {
    if (IsFrame(words[i])) state->frame = {words[i]};
  }
  if (!state->frame) state.reset();
  return state;
}

Result<std::vector<RawFrame>> GreenletReader::ReadFrames(const State& state) const {
  const SavedStack memory(*memory_, state.start, state.saved_bytes, state.copy);
  const FrameChainReader chains(memory, location_.offsets);
  RemoteAddress at = state.frame;
  if (location_.version.minor >= kFirstWithFrameApart) {
    ASSIGN_OR_RETURN(at,
                     memory.ReadValue((state.frame + objects_.value + kFrameAfterHead).As<RemoteAddress>()));
  }
  std::vector<RawFrame> frames;
  while (at) {
    if (frames.size() >= kMaxFrames) return Moved();
    ASSIGN_OR_RETURN(const auto one, chains.ReadEach({at}));
    frames.push_back(one.front());
    at = one.front().previous;
  }
  return frames;
}

Result<GreenletReader::FoundGreenlet> GreenletReader::ReadOne(RemoteAddress greenlet) {
  ASSIGN_OR_RETURN(const auto before, ReadState(greenlet));
  if (!before) return NotSuspended();
  FoundGreenlet found;
  found.stack = *maps_->Find(before->start);
  found.greenlet.id = greenlet.address;
  found.greenlet.is_main = before->stop == kEndless;
  ASSIGN_OR_RETURN(found.greenlet.type, attributes_.TypeName(greenlet));
  ASSIGN_OR_RETURN(const auto frames, ReadFrames(*before));
  ASSIGN_OR_RETURN(found.greenlet.frames, stacks_->DescribeWaiting(frames));
  ASSIGN_OR_RETURN(const auto after, ReadState(greenlet));
  if (after != before) return Moved();
  ASSIGN_OR_RETURN(const auto again, ReadFrames(*before));
  if (!IsSame(frames, again)) return Moved();
  return found;
}

}  // namespace probing::cpython
