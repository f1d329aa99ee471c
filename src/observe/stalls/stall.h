// A stall: something took too long, and what the threads did before and during it. A row of python.stalls.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flame/profile.h"

namespace probing::observe {

inline constexpr std::string_view kEventLoopStall = "event_loop";
inline constexpr std::string_view kGilStall = "gil";
inline constexpr std::string_view kCpuStall = "cpu_wait";

struct Stall {
  std::string kind;
  std::int64_t start_ns = 0;  // monotonic
  std::int64_t duration_ns = 0;
  bool has_ended = true;  // false: it is written while it goes on
  pid_t tid = 0;
  std::string thread_name;
  std::string why;
  flame::Frame line;                 // the user's; an empty function when no stack could be read
  std::int64_t cpu_wait_ns = 0;      // of it, the thread could have run and had no CPU
  std::int64_t waiting_threads = 0;  // that this kept waiting, as far as is known
  std::string stack;                 // outermost first, "function (file:line)" separated by ;
  std::string before;                // the same, just before it began
  struct Part {
    std::int64_t offset_ns = 0;  // from its start; negative: before it
    std::int64_t duration_ns = 0;
    std::string stack;
  };
  std::vector<Part> parts;     // what the thread did, oldest first
  std::int64_t looks = 0;      // at the thread, during it
  std::uint64_t left_out = 0;  // stalls that were not written before this one: there were too many
};

}  // namespace probing::observe
