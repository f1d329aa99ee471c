// From moments in a backward pass to how long each module took in it. Pure arithmetic.
//
// Autograd says when it begins with the node that made a tensor. Of a call of a module two such
// moments are known: when it begins with the call's output (the module's backward begins), and when
// it begins with the call's input (it is over). The second one mostly is the first one of the module
// before, and then is noted once only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace probing::torch {

struct BackwardMoment {
  enum class Kind : std::uint8_t { kBegin, kEnd, kPassEnd };
  Kind kind = Kind::kBegin;
  std::int32_t call = -1;  // none for kPassEnd
  std::int64_t at_ns = 0;
};

// Which calls a call contains: those that began within it, itself first.
struct CallRange {
  std::int32_t last = 0;     // the last one it contains
  std::int32_t shares = -1;  // a call within whose output is also its own, which was noted instead
  bool skipped = false;      // nobody looked when its backward begins
};

struct BackwardSpan {
  std::int64_t begin_ns = 0;
  std::int64_t duration_ns = 0;
};

// For each call, nothing when autograd never came to it or it was skipped. A call ends when its input is
// reached, when autograd comes to a call that is not within it, or with the pass.
std::vector<std::optional<BackwardSpan>> BackwardSpans(std::span<const CallRange> calls,
                                                       std::vector<BackwardMoment> moments);

}  // namespace probing::torch
