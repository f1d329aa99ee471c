// One stack out of two: the native frames, with the Python frames where the interpreter's loop is.
//
// Which Python frames belong to which run of the loop is what the interpreter itself says
// (cpython::EvalLoop). Both stacks must be of the same moment. When they do not fit each other the
// result says so, and has the Python frames as a block on top: an order is never guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpython/snapshot.h"
#include "unwind/native_stack.h"

namespace probing::unwind {

struct MixedFrame {
  enum class Kind : std::uint8_t { kPython, kNative };
  Kind kind = Kind::kNative;
  std::size_t index = 0;  // in cpython::Thread::frames, or in NativeStack::frames

  bool operator==(const MixedFrame&) const = default;
};

struct MixedStack {
  std::vector<MixedFrame> frames;  // innermost first
  bool merged = false;
};

enum class PlumbingFrames : std::uint8_t { kLeftOut, kKept };

// `python` may have no frames: a thread that runs no Python. One that is torn gives merged=false.
MixedStack Merge(const NativeStack& native, const cpython::Thread& python,
                 PlumbingFrames plumbing = PlumbingFrames::kLeftOut);

}  // namespace probing::unwind
