#include "observe/stacks/task_frames.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace probing::observe {
namespace {

using cpython::Task;
using flame::Frame;
using flame::FrameKind;

constexpr std::size_t kMaxWaiters = 16;  // tasks above one that are shown; also the end of a circle

enum class LoopPart : std::uint8_t { kNone, kItself, kRunsSomething };

// Whether a frame is of the event loop of asyncio or uvloop, and whether it calls what the program gave it.
LoopPart PartOf(const Frame& frame) {
  if (frame.kind != FrameKind::kPython) return LoopPart::kNone;
  const std::string_view file = frame.file;
  const bool uvloop = file.find("/uvloop/") != std::string_view::npos;
  const bool asyncio = file.find("/asyncio/") != std::string_view::npos;
  if (!uvloop && !asyncio) return LoopPart::kNone;
  // Qualified since Python 3.11: "Handle._run".
  std::string_view function = frame.function;
  function.remove_prefix(function.rfind('.') + 1);
  if (function == "_run" && file.ends_with("/events.py")) return LoopPart::kRunsSomething;
  const bool of_loop =
      function == "_run_once" || function == "run_until_complete" || function == "run_forever";
  if (asyncio && of_loop) return LoopPart::kItself;
  // uvloop's own loop is C, so this is next to what it runs.
  return function == "run" ? LoopPart::kRunsSomething : LoopPart::kNone;
}

Frame Group(std::string name) { return {FrameKind::kGroup, std::move(name), ""}; }

const Task* Find(const std::vector<Task>& tasks, std::uint64_t id) {
  const auto found =
      std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task.id == id; });
  return found == tasks.end() ? nullptr : &*found;
}

// Of a task that waits.
std::string FunctionOf(const Task& task) { return task.frames.empty() ? "" : task.frames.back().function; }

// Those that wait for `task`, with what they do. Of several the first: a stack has one way down.
void AddWaiters(const Task* task, const std::vector<Task>& tasks, std::vector<Frame>& frames) {
  for (std::size_t i = 0; i < kMaxWaiters && !task->awaited_by.empty(); ++i) {
    task = Find(tasks, task->awaited_by.front());
    if (task == nullptr) return;
    for (const cpython::Frame& frame : task->frames)
      frames.push_back({FrameKind::kPython, frame.function, frame.file, frame.line, frame.first_line});
    frames.push_back(Group("task " + LabelOf(*task, FunctionOf(*task))));
  }
}

bool IsGivenName(const std::string& name) {
  constexpr std::string_view kOwn = "Task-";
  if (name.empty()) return false;
  return !name.starts_with(kOwn) || !std::all_of(name.begin() + kOwn.size(), name.end(),
                                                 [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The task that a stack is of whose coroutine is `function`. Stack and tasks were read one after the other,
// so another one may run by now. Null: none, or nobody knows which.
const Task* TaskOf(const std::string& function, const std::vector<RunningTask>& running,
                   const std::vector<Task>& tasks) {
  for (const RunningTask& one : running) {
    if (one.function == function) return one.task;
  }
  const Task* found = nullptr;
  for (const Task& task : tasks) {
    if (FunctionOf(task) != function) continue;
    const bool same = found == nullptr || (LabelOf(*found, function) == LabelOf(task, function) &&
                                           found->awaited_by == task.awaited_by);
    if (!same) return nullptr;
    found = &task;
  }
  return found;
}

// So many frames are within a task of the thread, by the name of its coroutine: a loop in C has no frame.
std::size_t WithinTask(const std::vector<Frame>& frames, pid_t tid, const std::vector<RunningTask>& running,
                       const std::vector<Task>& tasks) {
  std::vector<std::string> functions;
  for (const RunningTask& one : running) functions.push_back(one.function);
  for (const Task& task : tasks) {
    if (task.tid == tid && tid != 0) functions.push_back(FunctionOf(task));
  }
  for (std::size_t i = frames.size(); i > 0; --i) {
    const Frame& frame = frames[i - 1];
    const bool is_task = frame.kind == FrameKind::kPython && !frame.function.empty() &&
                         std::find(functions.begin(), functions.end(), frame.function) != functions.end();
    if (is_task) return i;
  }
  return 0;
}

}  // namespace

std::string LabelOf(const Task& task, const std::string& function) {
  if (IsGivenName(task.name) || function.empty()) return task.name.empty() ? "?" : task.name;
  return function;
}

std::vector<Frame> FramesByTask(std::vector<Frame> frames, pid_t tid, const std::vector<RunningTask>& running,
                                const std::vector<Task>& tasks) {
  std::size_t inside = 0;  // so many frames are within the loop
  LoopPart part = LoopPart::kNone;
  for (; inside < frames.size() && part == LoopPart::kNone; ++inside) part = PartOf(frames[inside]);
  inside = part == LoopPart::kNone ? WithinTask(frames, tid, running, tasks) : inside - 1;
  if (part == LoopPart::kNone && inside == 0) return frames;
  const auto is_python = [](const Frame& frame) { return frame.kind == FrameKind::kPython; };
  const auto outermost =
      std::find_if(frames.rend() - static_cast<std::ptrdiff_t>(inside), frames.rend(), is_python);
  if (part == LoopPart::kItself || outermost == frames.rend()) {
    frames.push_back(Group("event loop"));
    return frames;
  }
  const std::string function = outermost->function;
  const Task* task = TaskOf(function, running, tasks);
  frames.resize(inside);
  if (task != nullptr) {
    frames.push_back(Group("task " + LabelOf(*task, function)));
    AddWaiters(task, tasks, frames);
  } else {
    // A task that is over by now, one of several, or what is called without one (call_soon, a protocol).
    const bool is_task =
        std::any_of(tasks.begin(), tasks.end(), [&](const Task& one) { return FunctionOf(one) == function; });
    frames.push_back(Group((is_task ? "task " : "callback ") + function));
  }
  return frames;
}

std::vector<Frame> FramesOfWaiting(const Task& task, const std::vector<Task>& tasks) {
  std::vector<Frame> frames;
  for (const cpython::Frame& frame : task.frames)
    frames.push_back({FrameKind::kPython, frame.function, frame.file, frame.line, frame.first_line});
  frames.push_back(Group("task " + LabelOf(task, FunctionOf(task))));
  AddWaiters(&task, tasks, frames);
  return frames;
}

}  // namespace probing::observe
