#include "observe/host/thread_watch.h"

#include <limits>

namespace probing::observe {

ThreadWatch::ThreadWatch(int task_fd, pid_t tid, FileBudget* budget)
    : schedstat_(task_fd, std::to_string(tid) + "/schedstat", budget),
      stat_(task_fd, std::to_string(tid) + "/stat", budget),
      status_(task_fd, std::to_string(tid) + "/status", budget),
      wait_channel_(task_fd, std::to_string(tid) + "/wchan", budget),
      children_(task_fd, std::to_string(tid) + "/children", budget) {
  look_.tid = tid;
}

void ThreadWatch::Look(std::int64_t interval_ns, std::string& scratch) {
  look_.has_run = true;
  if (!counts_runs_) return;
  std::string_view text = schedstat_.Read(scratch).value_or("");  // "run_ns wait_ns times_run"
  const Number run_ns = ParseNumber(TakeWord(text));
  TakeWord(text);
  const Number times_run = ParseNumber(TakeWord(text));
  // All zero: a kernel without this, since a thread that can be seen has run.
  counts_runs_ = run_ns.has_value() && times_run.value_or(0) > 0;
  if (!counts_runs_) return;
  // A thread that runs all the time is put on a CPU once.
  look_.has_run = !(times_run == times_run_ && look_.has_details && look_.state != 'R');
  times_run_ = times_run;
  step_ns_ = run_ns_.Step(run_ns);
  look_.cpu_percent = Percent(step_ns_, interval_ns);
  if (look_.has_run) return;
  look_.voluntary_switches = 0;
  look_.involuntary_switches = 0;
}

bool ThreadWatch::ReadDetails(std::int64_t interval_ns, std::string& scratch) {
  const auto text = stat_.Read(scratch);
  const auto stat = text.has_value() ? ParseTaskStat(*text) : std::nullopt;
  if (!stat.has_value()) return false;
  look_.has_details = true;
  look_.name = stat->name;
  look_.state = stat->state;
  look_.core = stat->core();
  if (!counts_runs_) {
    step_ns_ =
        run_ns_.Step(Times(Plus(stat->user_ticks(), stat->system_ticks()), 1'000'000'000 / TicksPerSecond()));
    look_.cpu_percent = Percent(step_ns_, interval_ns);
  }

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

void ThreadWatch::ForgetDetails() {
  look_.has_details = false;
  look_.state = '?';
  look_.core.reset();
  look_.wait_channel.clear();
  look_.voluntary_switches.reset();
  look_.involuntary_switches.reset();
  // The next ones would be those of several intervals.
  voluntary_ = Counter();
  involuntary_ = Counter();
}

bool ThreadWatch::ListChildren(std::vector<pid_t>& children, std::string& scratch) {
  const auto content = children_.Read(scratch);
  if (!content.has_value()) return false;
  std::string_view text = *content;
  while (!text.empty()) {
    const Number pid = ParseNumber(TakeWord(text));
    if (pid.has_value() && *pid > 0 && *pid <= std::numeric_limits<pid_t>::max()) {
      children.push_back(static_cast<pid_t>(*pid));
    }
  }
  return true;
}

}  // namespace probing::observe
