// Events that have begun: a fixed pool, for all communicators of the process.
//
// A handle names an event and its generation, so that one which comes late (NCCL starts parts of an operation
// after it has stopped the operation itself) finds nothing instead of somebody else's event. An event is held
// by references: its own until it is stopped, and one of each part. All functions are hot paths: no lock, no
// allocation; from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace probing::nccl {

struct Context;

using Handle = std::uint64_t;  // odd; 0 for none. Pointers of other plugins are even.

struct Event {
  enum class Kind : std::uint8_t { kOther, kOperation, kProxyOp, kProxyStep, kKernelCh };
  using Text = std::array<char, 24>;

  std::atomic<std::uint64_t> state{0};  // see events.cc
  std::atomic<std::uint32_t> next_free{0};

  // Of the thread that starts it, until others know the handle.
  Kind kind = Kind::kOther;
  bool is_p2p = false;
  bool is_send = false;
  std::uint8_t channels = 0;  // of an operation: how many have to end; of the others: which it is
  Context* context = nullptr;
  Handle parent = 0;
  std::atomic<void*> next_handle{nullptr};  // of the plugin behind us
  std::int64_t started_wall_ns = 0, started_ns = 0;
  Text op{}, datatype{}, algorithm{}, protocol{};
  std::int64_t seq = 0, count = 0;
  int root = 0, peer = 0, steps = 0;

  // Of a step: the thread of the proxy, one at a time.
  int step_state = 0;
  std::int64_t state_since_ns = 0;
  std::int64_t waited_ns[3] = {};  // for the GPU, for the peer, for the network
  std::int64_t bytes = 0;

  // Of an operation or a proxy's, from its parts on any thread.
  std::atomic<std::int64_t> stopped_ns{0}, ended_ns{0};
  std::atomic<std::uint64_t> gpu_from{0}, gpu_to{0};  // of KernelCh: its own
  std::atomic<int> channels_done{0};
  std::atomic<std::int64_t> sum_bytes{0}, sum_waited_ns[3] = {};
};

// Null when the pool is full, which is counted. Its state is empty; `handle` becomes its own.
Event* NewEvent(Handle& handle);

// The event, with one more reference; null when it is over.
Event* Hold(Handle handle);

// What the plugin behind us knows the event by; null when it is over.
void* NextHandleOf(Handle handle);

enum class When : std::uint8_t {
  kNow,    // the last reference finishes it
  kLater,  // the last reference leaves it for LetGoOfOld(): parts may still come
};
// Gives a reference back; true when the caller has to finish the event and Free() it.
bool LetGo(Event& event, When when);

// No more parts are awaited. True when the caller has to finish it now; else the last reference does.
bool LetGoOfOld(Handle handle, Event*& event);

void Free(Event& event);

std::int64_t LostEvents();

}  // namespace probing::nccl
