#include "backtrace/own_frames.h"

#include <algorithm>

#include "base/own_code.h"

namespace probing::backtrace {
namespace {

bool IsOwn(const cpython::Frame& frame) { return frame.file == kOwnPythonFile; }

void LeaveOut(cpython::Thread& thread) {
  const std::vector<cpython::Frame>& frames = thread.frames;
  const std::size_t inner = std::min(thread.left_out_at, frames.size());
  const auto before =
      std::count_if(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(inner), IsOwn);
  thread.left_out_at -= static_cast<std::size_t>(before);
  std::erase_if(thread.frames, IsOwn);
}

}  // namespace

void LeaveOutOwnFrames(std::vector<ShownThread>& threads) {
  for (ShownThread& thread : threads) {
    const std::vector<cpython::Frame>& python =
        thread.mixed ? thread.mixed->python.frames : thread.python.frames;
    if (std::all_of(python.begin(), python.end(), IsOwn)) continue;
    if (thread.mixed) {
      // The others keep their numbers: native frames stand between them.
      std::erase_if(thread.mixed->stack.frames, [&](const unwind::MixedFrame& frame) {
        return frame.kind == unwind::MixedFrame::Kind::kPython && IsOwn(python[frame.index]);
      });
    } else {
      LeaveOut(thread.python);
    }
  }
}

}  // namespace probing::backtrace
