// ThreadWatch: CPU time and switches of one thread between two looks.
//
// A thread that has not run since the last look costs one short read (schedstat, 1 µs): the kernel
// counts how often a thread was put on a CPU, and while that number stands nothing else about the
// thread has changed. Where the kernel does not count, every look reads everything.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "observe/host/counter.h"
#include "observe/host/kept_file.h"

namespace probing::observe {

struct ThreadLook {
  pid_t tid = 0;
  std::string name;
  char state = '?';
  bool has_run = true;  // since the last look; true at the first
  std::optional<double> cpu_percent;
  Number core;
  std::string wait_channel;  // "" when it runs, or nobody may know
  Number voluntary_switches;
  Number involuntary_switches;
};

class ThreadWatch {
 public:
  // `task_fd` is the open /proc/PID/task; it and the budget outlive this.
  ThreadWatch(int task_fd, pid_t tid, FileBudget* budget);

  // false: the thread has ended. `scratch` is for reading, shared by all threads.
  bool Look(std::int64_t interval_ns, std::string& scratch);
  const ThreadLook& last() const { return look_; }

 private:
  // How often it was put on a CPU; and its CPU time in `run_ns`.
  Number ReadSchedule(std::string& scratch, Number& run_ns);
  bool ReadState(std::string& scratch, Number& run_ns);

  KeptFile schedstat_, stat_, status_, wait_channel_;
  bool counts_runs_ = true;
  Number times_run_;
  Counter run_ns_, voluntary_, involuntary_;
  ThreadLook look_;
};

}  // namespace probing::observe
