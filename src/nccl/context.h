// What the plugin knows of a communicator, from init() to finalize().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "nccl/events.h"

namespace probing::nccl {

struct Context {
  std::atomic<bool> is_used{false};
  bool is_recorded = false;  // there is a probe that takes rows
  std::array<char, 24> hash{};
  std::array<char, 64> name{};
  int rank = 0, ranks = 0;
  void* next = nullptr;         // of the plugin behind us
  std::uint64_t next_mask = 0;  // events that one gets
  // The latest operations: parts of an older one are no longer awaited.
  static constexpr std::uint32_t kAwaited = 8;
  std::array<std::atomic<Handle>, kAwaited> latest{};
  std::atomic<std::uint32_t> operations{0};
};

// Null when a process has more communicators at once than there is room for. Not hot.
Context* NewContext();
void FreeContext(Context& context);

}  // namespace probing::nccl
