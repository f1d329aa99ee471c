#include "observe/stacks/mixed_sampler.h"

#include "observe/stacks/frame_list.h"
#include "process/status.h"
#include "unwind/demangle.h"

namespace probing::observe {
namespace {

// A sample that takes longer delays the next ones: what cannot be had soon is counted as lost. Six
// attempts pause for 3 ms in all.
constexpr unwind::MixedOptions kOptions{.attempts = 6, .deadline_ms = 20, .max_depth = 1024};
constexpr std::size_t kMaxKnownFrames = 1 << 16;

}  // namespace

Result<MixedSampler> MixedSampler::Attach(pid_t pid, std::shared_ptr<unwind::SymbolStore> symbols) {
  ASSIGN_OR_RETURN(auto unwinder, unwind::Unwinder::Attach(pid, *symbols));
  return MixedSampler(pid, std::move(symbols), std::move(unwinder));
}

Result<MixedSampler::Reading> MixedSampler::Read(pid_t tid, cpython::Interpreter* interpreter) {
  ASSIGN_OR_RETURN(unwind::MixedReading mixed, unwind::ReadMixed(unwinder_, interpreter, tid, kOptions));
  Reading reading;
  reading.merged = mixed.stack.merged;
  reading.torn = mixed.python.torn;
  reading.held_ns = mixed.native.held_ns;
  FrameList frames(mixed.python.interpreter_id);
  for (const unwind::MixedFrame& frame : mixed.stack.frames) {
    if (frame.kind == unwind::MixedFrame::Kind::kNative) {
      frames.AddNative(FrameOf(mixed.native.frames[frame.index].function));
    } else {
      frames.Add(mixed.python.frames[frame.index]);
    }
  }
  reading.frames = frames.Take();
  return reading;
}

const flame::Frame& MixedSampler::FrameOf(const std::shared_ptr<const unwind::Function>& function) {
  if (frames_.size() > kMaxKnownFrames) frames_.clear();
  const auto [entry, is_new] = frames_.try_emplace(function.get());
  if (is_new) {
    const std::string name = function->name.empty() ? "??" : unwind::ShortName(function->name);
    entry->second = {function, {flame::FrameKind::kNative, name, function->module}};
  }
  return entry->second.frame;
}

const std::vector<pid_t>& MixedSampler::Threads(bool again) {
  if (!again && !threads_.empty()) return threads_;
  auto threads = process::ListThreads(pid_);
  threads_ = threads.ok() ? std::move(*threads) : std::vector<pid_t>{};
  return threads_;
}

}  // namespace probing::observe
