// ThreadWatch: CPU time and switches of one thread between two looks.
//
// A look is one short read (schedstat): CPU time, and how often the thread was put on a CPU. While
// that number stands nothing else about the thread has changed. Otherwise the details are three more
// reads which cost ten times as much, so the owner decides for which threads they are worth it. Where the
// kernel does not count, everything comes from the details.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "observe/host/counter.h"
#include "observe/host/kept_file.h"

namespace probing::observe {

struct ThreadLook {
  pid_t tid = 0;
  std::string name;
  bool has_run = true;  // since the last look; true at the first, and when nobody knows
  std::optional<double> cpu_percent;

  bool has_details = false;  // without them, what follows is not known
  char state = '?';
  Number core;
  std::string wait_channel;  // "" when it runs, or nobody may know
  Number voluntary_switches;
  Number involuntary_switches;
};

class ThreadWatch {
 public:
  // `task_fd` is the open /proc/PID/task; it and the budget outlive this.
  ThreadWatch(int task_fd, pid_t tid, FileBudget* budget);

  // `scratch` is for reading, shared by all threads.
  void Look(std::int64_t interval_ns, std::string& scratch);

  // After Look().
  bool needs_details() const { return look_.has_run || !look_.has_details; }
  bool must_have_details() const { return !counts_runs_ || look_.name.empty(); }
  std::int64_t run_ns() const { return step_ns_.value_or(0); }  // in this interval

  // false: the thread has ended.
  bool ReadDetails(std::int64_t interval_ns, std::string& scratch);
  void ForgetDetails();

  // Processes that this thread started. false: not every kernel tells.
  bool ListChildren(std::vector<pid_t>& children, std::string& scratch);

  const ThreadLook& last() const { return look_; }

 private:
  KeptFile schedstat_, stat_, status_, wait_channel_, children_;
  bool counts_runs_ = true;
  Number times_run_, step_ns_;
  Counter run_ns_, voluntary_, involuntary_;
  ThreadLook look_;
};

}  // namespace probing::observe
