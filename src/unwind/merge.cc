#include "unwind/merge.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "unwind/jit_code.h"
#include "unwind/plumbing.h"

namespace probing::unwind {
namespace {

constexpr std::size_t kNoLoop = std::numeric_limits<std::size_t>::max();
// How far from the top of the stack a loop may be that has no Python frame yet, or no more: nothing
// but some helper functions run while it begins or ends.
constexpr std::size_t kMaxDepthOfLoopInTransition = 4;

// For every native frame the run of the loop that it is, or kNoLoop.
using Assignment = std::vector<std::size_t>;

bool IsEval(const NativeFrame& frame) { return IsEvalLoop(frame.function->name); }

// Since 3.12 each run has an address in its part of the C stack: no names are needed.
std::optional<Assignment> AssignByAddress(const NativeStack& native, const cpython::Thread& python) {
  Assignment assignment(native.frames.size(), kNoLoop);
  std::size_t at = 0;
  for (std::size_t loop = 0; loop < python.loops.size(); ++loop) {
    const cpython::EvalLoop& wanted = python.loops[loop];
    const auto is_inside = [&](std::size_t i) {
      return native.frames[i].stack_pointer <= wanted.c_stack &&
             wanted.c_stack < native.frames[i + 1].stack_pointer;
    };
    // Where the outermost frame ends is not known; it is never a loop.
    std::size_t found = at;
    while (found + 1 < native.frames.size() && !is_inside(found)) ++found;
    if (found + 1 >= native.frames.size()) {
      // 3.14 keeps an empty frame at the end of the chain, which is no run of the loop.
      if (wanted.frames == 0) continue;
      return std::nullopt;
    }
    assignment[found] = loop;
    at = found + 1;
  }
  return assignment;
}

// Up to 3.11 they are counted.
std::optional<Assignment> AssignByName(const NativeStack& native, const cpython::Thread& python) {
  if (native.end != StackEnd::kComplete || python.truncated) return std::nullopt;
  std::vector<std::size_t> evals;
  for (std::size_t i = 0; i < native.frames.size(); ++i) {
    if (IsEval(native.frames[i])) evals.push_back(i);
  }
  const std::size_t loops = python.loops.size();
  if (evals.size() == loops + 1 && evals.front() <= kMaxDepthOfLoopInTransition) evals.erase(evals.begin());
  if (evals.size() != loops) return std::nullopt;
  Assignment assignment(native.frames.size(), kNoLoop);
  for (std::size_t loop = 0; loop < loops; ++loop) assignment[evals[loop]] = loop;
  return assignment;
}

std::optional<Assignment> Assign(const NativeStack& native, const cpython::Thread& python) {
  if (python.torn) return std::nullopt;
  const bool have_addresses = std::all_of(python.loops.begin(), python.loops.end(),
                                          [](const cpython::EvalLoop& loop) { return loop.c_stack != 0; });
  if (!python.loops.empty() && have_addresses) return AssignByAddress(native, python);
  return AssignByName(native, python);
}

bool IsShown(const NativeFrame& frame, PlumbingFrames plumbing) {
  if (plumbing == PlumbingFrames::kKept) return true;
  // What surrounds a Python function with `-X perf`.
  if (frame.function->module.empty() && IsPythonTrampoline(frame.function->name)) return false;
  return !IsEval(frame) && !IsPlumbing(frame.function->name);
}

}  // namespace

MixedStack Merge(const NativeStack& native, const cpython::Thread& python, PlumbingFrames plumbing) {
  using Kind = MixedFrame::Kind;
  MixedStack stack;
  const auto assignment = Assign(native, python);
  stack.merged = assignment.has_value();
  if (!stack.merged) {
    for (std::size_t i = 0; i < python.frames.size(); ++i) stack.frames.push_back({Kind::kPython, i});
    for (std::size_t i = 0; i < native.frames.size(); ++i) {
      if (IsShown(native.frames[i], plumbing)) stack.frames.push_back({Kind::kNative, i});
    }
    return stack;
  }
  std::size_t next = 0;  // Python frame
  for (std::size_t i = 0; i < native.frames.size(); ++i) {
    const std::size_t loop = (*assignment)[i];
    if (loop == kNoLoop) {
      if (IsShown(native.frames[i], plumbing)) stack.frames.push_back({Kind::kNative, i});
      continue;
    }
    for (std::size_t n = 0; n < python.loops[loop].frames && next < python.frames.size(); ++n) {
      stack.frames.push_back({Kind::kPython, next++});
    }
  }
  return stack;
}

}  // namespace probing::unwind
