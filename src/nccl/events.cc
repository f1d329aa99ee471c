#include "nccl/events.h"

#include <algorithm>

namespace probing::nccl {
namespace {

constexpr std::uint32_t kMaxEvents = 8192;

// The state of an event: its generation (32 bits), flags, references (24 bits).
constexpr std::uint64_t kReferences = (1U << 24) - 1;
constexpr std::uint64_t kClaimed = 1U << 24;  // somebody finishes it, or nobody uses it
constexpr std::uint64_t kOld = 1U << 25;      // no more parts are awaited
constexpr int kGenerationShift = 32;

constinit Event events[kMaxEvents];  // pages that were never used cost nothing
std::atomic<std::uint32_t> used{0};
std::atomic<std::uint64_t> free_list{0};  // a count against ABA (32 bits), index + 1
std::atomic<std::int64_t> lost{0};

std::uint32_t GenerationOf(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> kGenerationShift);
}

Handle HandleOf(std::uint32_t index, std::uint32_t generation) {
  return ((static_cast<std::uint64_t>(generation) << 16 | index) << 1) | 1;
}

Event* EventOf(Handle handle, std::uint32_t& generation) {
  const std::uint64_t number = handle >> 1;
  const auto index = static_cast<std::uint32_t>(number & 0xffff);
  generation = static_cast<std::uint32_t>(number >> 16);
  // The first generation is 1: a number from nowhere names no event that was never used.
  return (handle & 1) == 0 || index >= kMaxEvents || generation == 0 ? nullptr : &events[index];
}

Event* TakeFree() {
  std::uint64_t head = free_list.load(std::memory_order_acquire);
  while ((head & 0xffffffff) != 0) {
    Event& first = events[(head & 0xffffffff) - 1];
    const std::uint64_t next = ((head >> 32) + 1) << 32 | first.next_free.load(std::memory_order_relaxed);
    if (free_list.compare_exchange_weak(head, next, std::memory_order_acq_rel)) return &first;
  }
  if (used.load(std::memory_order_relaxed) >= kMaxEvents) return nullptr;
  const std::uint32_t index = used.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxEvents) return &events[index];
  used.store(kMaxEvents, std::memory_order_relaxed);
  return nullptr;
}

void Clear(Event& event) {
  event.kind = Event::Kind::kOther;
  event.is_p2p = event.is_send = false;
  event.channels = 0;
  event.context = nullptr;
  event.parent = 0;
  event.next_handle.store(nullptr, std::memory_order_relaxed);
  event.op[0] = event.datatype[0] = event.algorithm[0] = event.protocol[0] = 0;
  event.seq = event.count = 0;
  event.root = event.peer = event.steps = event.step_state = 0;
  event.state_since_ns = event.bytes = 0;
  event.stopped_ns.store(0, std::memory_order_relaxed);
  event.ended_ns.store(0, std::memory_order_relaxed);
  event.gpu_from.store(0, std::memory_order_relaxed);
  event.gpu_to.store(0, std::memory_order_relaxed);
  event.channels_done.store(0, std::memory_order_relaxed);
  event.sum_bytes.store(0, std::memory_order_relaxed);
  for (int i = 0; i < 3; ++i) {
    event.waited_ns[i] = 0;
    event.sum_waited_ns[i].store(0, std::memory_order_relaxed);
  }
}

}  // namespace

Event* NewEvent(Handle& handle) {
  Event* event = TakeFree();
  if (event == nullptr) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  Clear(*event);
  const std::uint32_t generation = std::max(GenerationOf(event->state.load(std::memory_order_relaxed)), 1U);
  handle = HandleOf(static_cast<std::uint32_t>(event - events), generation);
  event->state.store(static_cast<std::uint64_t>(generation) << kGenerationShift | 1,
                     std::memory_order_release);
  return event;
}

Event* Hold(Handle handle) {
  std::uint32_t generation = 0;
  Event* event = EventOf(handle, generation);
  if (event == nullptr) return nullptr;
  std::uint64_t state = event->state.load(std::memory_order_acquire);
  do {
    if (GenerationOf(state) != generation || (state & kClaimed) != 0) return nullptr;
  } while (!event->state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel));
  return event;
}

void* NextHandleOf(Handle handle) {
  std::uint32_t generation = 0;
  Event* event = EventOf(handle, generation);
  if (event == nullptr) return nullptr;
  void* next = event->next_handle.load(std::memory_order_acquire);
  const std::uint64_t state = event->state.load(std::memory_order_acquire);
  return GenerationOf(state) == generation && (state & kClaimed) == 0 ? next : nullptr;
}

bool LetGo(Event& event, When when) {
  std::uint64_t state = event.state.load(std::memory_order_acquire);
  while (true) {
    std::uint64_t left = state - 1;
    const bool is_last = (left & kReferences) == 0;
    const bool finishes = is_last && (when == When::kNow || (state & kOld) != 0);
    if (finishes) left |= kClaimed;
    if (event.state.compare_exchange_weak(state, left, std::memory_order_acq_rel)) return finishes;
  }
}

bool LetGoOfOld(Handle handle, Event*& event) {
  std::uint32_t generation = 0;
  event = EventOf(handle, generation);
  if (event == nullptr) return false;
  std::uint64_t state = event->state.load(std::memory_order_acquire);
  while (true) {
    if (GenerationOf(state) != generation || (state & kClaimed) != 0) return false;
    const bool finishes = (state & kReferences) == 0;
    if (event->state.compare_exchange_weak(state, state | (finishes ? kClaimed : kOld),
                                           std::memory_order_acq_rel))
      return finishes;
  }
}

void Free(Event& event) {
  const std::uint32_t generation = GenerationOf(event.state.load(std::memory_order_relaxed)) + 1;
  event.state.store(static_cast<std::uint64_t>(generation) << kGenerationShift | kClaimed,
                    std::memory_order_release);
  const auto index = static_cast<std::uint64_t>(&event - events) + 1;
  std::uint64_t head = free_list.load(std::memory_order_relaxed);
  do {
    event.next_free.store(static_cast<std::uint32_t>(head & 0xffffffff), std::memory_order_relaxed);
  } while (
      !free_list.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | index, std::memory_order_acq_rel));
}

std::int64_t LostEvents() { return lost.load(std::memory_order_relaxed); }

}  // namespace probing::nccl
