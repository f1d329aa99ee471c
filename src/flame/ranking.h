// Ranking: which functions the time went to; what `top` shows.
#pragma once

#include <cstdint>
#include <vector>

#include "flame/view.h"

namespace probing::flame {

struct RankedFunction {
  Frame function;           // its line is the first one, or the current one (view.by_line)
  std::uint64_t own = 0;    // ticks in which it was innermost
  std::uint64_t total = 0;  // ticks in which it was in the stack, however often
};

struct RankedThread {
  ThreadId thread = 0;
  std::uint64_t on_cpu = 0;  // ticks
  std::uint64_t with_gil = 0;
  StackId stack = kEmptyStack;  // the one it had last
};

struct Ranking {
  std::vector<RankedFunction> functions;  // most own time first
  std::uint64_t on_cpu = 0;               // ticks of all threads
  std::uint64_t with_gil = 0;
  std::vector<RankedThread> threads;  // seen, idle or not; the busiest first
};

// Of what was seen between two points in time (monotonic).
Ranking Rank(const Profile& profile, const View& view, std::int64_t from_ns, std::int64_t to_ns);

}  // namespace probing::flame
