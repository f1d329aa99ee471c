#include "observe/stacks/frame_list.h"

#include <string>

#include "base/own_code.h"

namespace probing::observe {

void FrameList::Add(cpython::Frame& frame) {
  if (frame.file == kOwnPythonFile) return;
  const std::int64_t interpreter = frame.interpreter_id.value_or(thread_interpreter_id_);
  if (current_ && *current_ != interpreter) EndInterpreter();
  current_ = interpreter;
  frames_.push_back({flame::FrameKind::kPython, std::move(frame.function), std::move(frame.file), frame.line,
                     frame.first_line});
}

void FrameList::EndInterpreter() {
  if (current_.value_or(0) == 0) return;
  frames_.push_back({flame::FrameKind::kGroup, "interpreter " + std::to_string(*current_), ""});
}

std::vector<flame::Frame> FrameList::Take() {
  EndInterpreter();
  current_.reset();
  return std::move(frames_);
}

std::vector<flame::Frame> FramesOf(cpython::Thread& thread) {
  FrameList frames(thread.interpreter_id);
  for (cpython::Frame& frame : thread.frames) frames.Add(frame);
  return frames.Take();
}

}  // namespace probing::observe
