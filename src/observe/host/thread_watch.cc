#include "observe/host/thread_watch.h"

namespace probing::observe {

ThreadWatch::ThreadWatch(int task_fd, pid_t tid, FileBudget* budget)
    : schedstat_(task_fd, std::to_string(tid) + "/schedstat", budget),
      stat_(task_fd, std::to_string(tid) + "/stat", budget),
      status_(task_fd, std::to_string(tid) + "/status", budget),
      wait_channel_(task_fd, std::to_string(tid) + "/wchan", budget) {
  look_.tid = tid;
}

Number ThreadWatch::ReadSchedule(std::string& scratch, Number& run_ns) {
  if (!counts_runs_) return std::nullopt;
  const auto text = schedstat_.Read(scratch);
  if (!text.has_value()) return std::nullopt;
  std::string_view rest = *text;  // "run_ns wait_ns times_run"
  run_ns = ParseNumber(TakeWord(rest));
  TakeWord(rest);
  const Number times_run = ParseNumber(TakeWord(rest));
  // All zero: a kernel without this, since a thread that can be seen has run.
  if (!times_run.has_value() || *times_run == 0) run_ns.reset();
  return run_ns.has_value() ? times_run : std::nullopt;
}

bool ThreadWatch::ReadState(std::string& scratch, Number& run_ns) {
  const auto text = stat_.Read(scratch);
  const auto stat = text.has_value() ? ParseTaskStat(*text) : std::nullopt;
  if (!stat.has_value()) return false;
  look_.name = stat->name;
  look_.state = stat->state;
  look_.core = stat->core();
  if (!run_ns.has_value()) {
    run_ns = Times(Plus(stat->user_ticks(), stat->system_ticks()), 1'000'000'000 / TicksPerSecond());
  }
  return true;
}

bool ThreadWatch::Look(std::int64_t interval_ns, std::string& scratch) {
  Number run_ns;
  const Number times_run = ReadSchedule(scratch, run_ns);
  const bool slept = look_.state != 'R' && look_.state != '?';
  if (slept && times_run.has_value() && times_run == times_run_) {
    look_.has_run = false;
    look_.cpu_percent = 0;
    look_.voluntary_switches = 0;
    look_.involuntary_switches = 0;
    return true;
  }
  if (!ReadState(scratch, run_ns)) return false;
  counts_runs_ = times_run.has_value();
  times_run_ = times_run;
  look_.has_run = true;
  look_.cpu_percent = Percent(run_ns_.Step(run_ns), interval_ns);

  const auto status = status_.Read(scratch).value_or("");
  look_.voluntary_switches = voluntary_.Step(FindNumber(status, "voluntary_ctxt_switches:"));
  look_.involuntary_switches = involuntary_.Step(FindNumber(status, "nonvoluntary_ctxt_switches:"));

  look_.wait_channel.clear();
  if (look_.state != 'R') {
    const auto channel = wait_channel_.Read(scratch).value_or("");
    if (channel != "0") look_.wait_channel = channel.substr(0, channel.find('\n'));
  }
  return true;
}

}  // namespace probing::observe
