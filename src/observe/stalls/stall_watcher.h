// StallWatcher: looks at the threads of one process every 20 ms and notices what takes too long.
//
// Seen from outside alone: an event loop that does not turn (asyncio, uvloop) and a thread that keeps the GIL
// while others wait for it. Nothing in the target notes anything and nothing of it is stopped; only a thread
// that stalls and calls so fast that its stack cannot be read is held, once, for some tens of microseconds.
// Whatever else takes too long is found elsewhere, and explained by what was seen meanwhile (Explain).
//
// A look is cheap: when no thread has run since the last one, it is one short read of /proc for each. Of many
// threads that run, each look takes the main one, event loops and the GIL's holder, and of the others a part
// in turn. Looks take at most 1 % of a CPU (Pace); while something stalls they are 8 ms apart. Not
// thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpython/interpreter.h"
#include "observe/stacks/thread_clock.h"
#include "observe/stalls/pace.h"
#include "observe/stalls/row_budget.h"
#include "observe/stalls/stall.h"
#include "observe/stalls/trail.h"

namespace probing::observe {

struct StallOptions {
  std::int64_t limit_ns = 50'000'000;
  std::size_t trail_bytes = 6 << 20;
};

class StallWatcher {
 public:
  // kNotFound, kPermission: as the process says. kFailed: there is no Python in it (yet).
  static Result<StallWatcher> Attach(pid_t pid, const StallOptions& options);

  // One look. kNotFound: the process has ended. kFailed: it could not be read this time.
  Result<void> Look();
  // Sleeps until the next one is due.
  void Wait();

  // Stalls that were seen to end, or that go on for seconds, since the last call.
  std::vector<Stall> Take();

  // What took too long from `stall.start_ns` on: fills in what the thread did. tid 0, or one that is not
  // known: the main thread if it was seen then, else the busiest.
  void Explain(Stall& stall, std::int64_t usual_ns) const;

  // Looks are close together until then, as far as Pace lets them.
  void LookCloser(std::int64_t until_ns);

 private:
  struct Watched {
    std::optional<ThreadClock> clock;
    std::string name;
    bool is_due = true;  // in this look
    std::int64_t looked_ns = 0;
    bool on_cpu = false;
    bool has_run = true;  // since its stack was read
    bool has_stack = false;
    bool has_gil = false;
    bool is_torn = false;  // at the last reading
    std::uint64_t times_run = 0;
    std::int64_t waited_ns = 0;
    std::optional<std::vector<flame::Frame>> fresh;  // read in this look
    // Of its event loop.
    std::optional<cpython::LoopTurn> loop;
    std::int64_t idle_ns = 0;        // when it was last seen to wait, or in another turn
    std::int64_t busy_since_ns = 0;  // 0: it waits
    std::int64_t busy_seen_ns = 0;   // the last look that saw it busy since then
    bool was_reported = false;       // while it goes on
    bool stack_in_stall = false;     // a stack was read since it began
  };
  struct Gil {
    std::optional<std::uint64_t> switches;
    pid_t holder = 0;
    std::int64_t before_ns = 0;                // the look before the first one that saw this
    std::int64_t since_ns = 0;                 // that one
    std::int64_t seen_ns = 0;                  // the last one
    std::map<pid_t, std::uint64_t> times_run;  // of others, at the first look that they slept in
    std::size_t waiting = 0;                   // of them, now
    bool was_reported = false;
  };

  StallWatcher(pid_t pid, const StallOptions& options, cpython::Interpreter interpreter);

  bool LookAtClocks();
  bool LookAtClock(Watched& watched);
  bool IsAlwaysDue(pid_t tid, const Watched& watched) const;
  Result<void> ReadStacks();
  bool MaySkip(const cpython::Thread& thread);
  void ReadPatiently(const cpython::Thread& thread, const cpython::ReadOptions::ReadOnce& read);
  void Store();
  void FollowLoop(pid_t tid, Watched& watched);
  bool IsWaitingNative(pid_t tid, const Watched& watched) const;
  void EndLoopStall(pid_t tid, Watched& watched, std::int64_t end_ns, bool is_exact);
  void FollowGil();
  bool MayHaveGilWaiters() const;
  void CountGilWaiters();
  void EndGilStall(std::int64_t end_ns);
  void Report(Stall stall);
  bool IsClose() const;

  pid_t pid_;
  StallOptions options_;
  cpython::Interpreter interpreter_;
  Trail trail_;
  Pace pace_;
  std::unordered_map<pid_t, Watched> threads_;
  Gil gil_;
  std::optional<std::uint64_t> switches_read_;  // the GIL's, when stacks were read last
  std::optional<pid_t> holder_;
  bool check_all_ = true;
  int rechecks_left_ = 0;
  std::size_t thread_count_ = 0;  // at the last reading
  std::int64_t next_check_ns_ = 0;
  std::int64_t now_ns_ = 0, last_look_ns_ = 0;
  std::int64_t spent_ns_ = 0, next_ns_ = 0;
  std::int64_t close_until_ns_ = 0;
  std::vector<Stall> found_;
  RowBudget rows_;
};

}  // namespace probing::observe
