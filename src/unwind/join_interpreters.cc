#include "unwind/join_interpreters.h"

#include <algorithm>
#include <utility>

namespace probing::unwind {
namespace {

using cpython::Thread;

// A run of the loop, and where its frames are.
struct Run {
  cpython::EvalLoop loop;
  Thread* thread;
  std::size_t first_frame;
};

std::vector<Run> RunsOf(std::vector<Thread>& states) {
  std::vector<Run> runs;
  for (Thread& thread : states) {
    std::size_t frame = 0;
    for (const cpython::EvalLoop& loop : thread.loops) {
      runs.push_back({loop, &thread, frame});
      frame = std::min(frame + loop.frames, thread.frames.size());
    }
  }
  return runs;
}

}  // namespace

Thread JoinInterpreters(std::vector<Thread> states) {
  std::stable_sort(states.begin(), states.end(), [](const Thread& a, const Thread& b) {
    return a.interpreter_id > b.interpreter_id;  // the main one is the outermost
  });
  std::vector<Run> runs = RunsOf(states);
  const bool have_addresses =
      std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.loop.c_stack != 0; });
  Thread joined;
  joined.tid = states.front().tid;
  joined.name = states.front().name;
  joined.python_name = states.back().python_name;
  for (const Thread& thread : states) {
    joined.has_gil |= thread.has_gil;
    joined.is_collecting |= thread.is_collecting;
    joined.truncated |= thread.truncated;
    joined.torn |= thread.torn;
  }
  if (have_addresses) {
    std::stable_sort(runs.begin(), runs.end(),
                     [](const Run& a, const Run& b) { return a.loop.c_stack < b.loop.c_stack; });
  } else if (states.size() > 2 || states.back().interpreter_id != 0) {
    joined.torn = true;
  }
  for (const Run& run : runs) {
    std::vector<cpython::Frame>& frames = run.thread->frames;
    const std::size_t end = std::min(run.first_frame + run.loop.frames, frames.size());
    for (std::size_t i = run.first_frame; i < end; ++i) {
      frames[i].interpreter_id = run.thread->interpreter_id;
      joined.frames.push_back(std::move(frames[i]));
    }
    joined.loops.push_back({end - run.first_frame, run.loop.c_stack});
  }
  joined.interpreter_id = joined.frames.empty() ? 0 : *joined.frames.front().interpreter_id;
  return joined;
}

}  // namespace probing::unwind
