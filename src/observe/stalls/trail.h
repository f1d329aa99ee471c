// Trail: what every thread of a process did during the last minute or so, in looks some 20 ms apart.
//
// A look at a thread stands for the time since the last one. It answers "what was this thread doing then?"
// after the event. Unlike samples (process_sampler.h) it prefers moments at which a stack is easy to read, so
// it has no shares to be right. Bounded: the oldest goes. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <deque>
#include <unordered_map>
#include <vector>

#include "flame/profile.h"
#include "observe/stalls/stall.h"

namespace probing::observe {

class Trail {
 public:
  explicit Trail(std::size_t max_bytes);

  struct Look {
    std::int64_t at_ns = 0;
    bool on_cpu = false;
    bool has_gil = false;
    std::int64_t waited_ns = 0;  // for a CPU, since the thread began
  };
  // `frames` innermost first; null when the thread has not moved since the look before.
  void Add(pid_t pid, pid_t tid, const std::string& name, const Look& look,
           const std::vector<flame::Frame>* frames);
  // Before what ends in this look is explained: the kernel counts a wait for a CPU when it is over. `tid` may
  // be unknown.
  void AddWait(pid_t tid, const Look& look);
  void End(pid_t tid);
  bool Knows(pid_t tid) const { return Find(tid) != nullptr; }

  // Fills the stacks, the line, and what the thread waited for. `stall` has a thread and a time. With
  // `usual_ns`, the usual duration of what took too long now, the line is the one that took most of the
  // difference, not the one that always takes most.
  void Explain(Stall& stall, std::int64_t usual_ns) const;

  // The thread that did most in this time: was on a CPU, or has moved. 0 when there is none.
  pid_t BusiestThread(std::int64_t from_ns, std::int64_t to_ns) const;

 private:
  struct Thread {
    flame::ThreadId id = 0;
    std::int64_t seen_ns = 0;                                  // last
    std::deque<std::pair<std::int64_t, std::int64_t>> waited;  // when seen, waited for a CPU so far
  };
  struct Run {
    const flame::Sample* sample = nullptr;
    std::int64_t from_ns = 0, to_ns = 0;
  };

  static void AddWait(Thread& thread, const Look& look);
  std::vector<Run> RunsOf(flame::ThreadId thread, std::int64_t from_ns, std::int64_t to_ns) const;
  std::vector<const flame::Frame*> FramesOf(flame::StackId stack) const;
  std::string TextOf(flame::StackId stack) const;
  std::int64_t WaitedBetween(const Thread& thread, std::int64_t from_ns, std::int64_t to_ns) const;
  void ExplainLine(Stall& stall, flame::ThreadId thread, const std::vector<Run>& runs,
                   std::int64_t usual_ns) const;
  std::string Why(const Stall& stall, const std::vector<Run>& runs) const;

  // Also one that has ended, as long as there is something about it. Null: nobody knows it.
  const Thread* Find(pid_t tid) const;

  flame::Profile profile_;
  std::unordered_map<pid_t, Thread> threads_;
  std::deque<std::pair<pid_t, Thread>> ended_;
  std::int64_t looked_ns_ = 0, now_looked_ns_ = 0;  // the last look but one, and the last one
};

}  // namespace probing::observe
