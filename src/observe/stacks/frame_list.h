// Frames of one thread on their way into a profile: innermost first, without those of the probe's own
// functions, and with a frame of kind kGroup below those of each interpreter but the main one.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cpython/snapshot.h"
#include "flame/profile.h"

namespace probing::observe {

class FrameList {
 public:
  // `interpreter_id` is that of the thread, for frames that do not say themselves whose they are.
  explicit FrameList(std::int64_t interpreter_id) : thread_interpreter_id_(interpreter_id) {}

  // Moves the names out of `frame`.
  void Add(cpython::Frame& frame);
  void AddNative(const flame::Frame& frame) { frames_.push_back(frame); }
  std::vector<flame::Frame> Take();

 private:
  void EndInterpreter();

  std::int64_t thread_interpreter_id_;
  std::optional<std::int64_t> current_;
  std::vector<flame::Frame> frames_;
};

// Of a thread without native frames.
std::vector<flame::Frame> FramesOf(cpython::Thread& thread);

}  // namespace probing::observe
