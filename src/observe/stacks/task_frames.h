// What a sample shows of asyncio when it is taken by task: the task instead of the event loop, below those
// that wait for it.
#pragma once

#include <string>
#include <vector>

#include "cpython/snapshot.h"
#include "flame/profile.h"

namespace probing::observe {

// The name that was given to a task; one that nobody named has that of its coroutine's function, so that
// tasks of a kind are together.
std::string LabelOf(const cpython::Task& task, const std::string& function);

// A task that ran when it was read, and the function of its coroutine, "" when that is not known. A thread
// may have several: tasks are read one after the other, and it goes on meanwhile.
struct RunningTask {
  const cpython::Task* task = nullptr;
  std::string function;
};

// A thread's frames, innermost first, as of one that runs an event loop: what it runs is below a frame (of
// kind kGroup) with the task's name, and below the tasks that wait for it; what the loop does itself is below
// "event loop". Frames of other threads come back as they are. Stack and tasks may be of different moments:
// what does not fit together is not put together.
std::vector<flame::Frame> FramesByTask(std::vector<flame::Frame> frames, pid_t tid,
                                       const std::vector<RunningTask>& running,
                                       const std::vector<cpython::Task>& tasks);

// The same for a task that does not run.
std::vector<flame::Frame> FramesOfWaiting(const cpython::Task& task, const std::vector<cpython::Task>& tasks);

}  // namespace probing::observe
