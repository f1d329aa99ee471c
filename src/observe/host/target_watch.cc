#include "observe/host/target_watch.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "observe/host/task_list.h"
#include "observe/stacks/descendants.h"

namespace probing::observe {
namespace {

// What changes rarely and costs much: who the children are, and the limits of the control group.
constexpr std::uint64_t kRareLooks = 10;

// Of how many threads that have run a look reads everything: the busiest. The others sleep most of the time,
// and this keeps a tick within 0.2 % of a core at one tick a second.
constexpr std::size_t kMostDetails = 32;

std::int64_t NsPerTick() { return 1'000'000'000 / TicksPerSecond(); }

}  // namespace

Result<std::unique_ptr<TargetWatch>> TargetWatch::Open(pid_t pid, FileBudget* budget,
                                                       const std::string& proc_root) {
  const std::string path = proc_root + "/" + std::to_string(pid);
  ScopedFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) {
    if (errno == ENOENT) return Error{Code::kNotFound, "there is no process " + std::to_string(pid), ""};
    return ErrnoError("open " + path);
  }
  ScopedFd tasks(openat(folder.get(), "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return std::unique_ptr<TargetWatch>(
      new TargetWatch(pid, std::move(folder), std::move(tasks), budget, proc_root));
}

TargetWatch::TargetWatch(pid_t pid, ScopedFd folder, ScopedFd tasks, FileBudget* budget,
                         const std::string& proc_root)
    : pid_(pid),
      proc_root_(proc_root),
      budget_(budget),
      folder_(std::move(folder)),
      tasks_(std::move(tasks)),
      stat_(folder_.get(), "stat", budget),
      statm_(folder_.get(), "statm", budget),
      status_(folder_.get(), "status", budget),
      io_(folder_.get(), "io", budget),
      network_(folder_.get(), budget),
      cgroups_(FindCgroups(pid, proc_root)),
      throttled_(cgroups_, budget) {}

Result<TargetLook> TargetWatch::Look(std::int64_t interval_ns) {
  TargetLook look;
  if (!LookAtCpu(look, interval_ns)) {
    return Error{Code::kNotFound, "process " + std::to_string(pid_) + " has ended", ""};
  }
  const bool is_rare = looks_ % kRareLooks == 0;
  if (is_rare) memory_limit_ = ReadMemoryLimit(cgroups_);
  ++looks_;
  LookAtMemory(look);
  LookAtIo(look);
  LookAtThreads(look, interval_ns);
  if (is_rare) FindChildren();
  LookAtChildren(look, interval_ns);
  look.interfaces = network_.Look(scratch_);
  return look;
}

bool TargetWatch::LookAtCpu(TargetLook& look, std::int64_t interval_ns) {
  const auto text = stat_.Read(scratch_);
  const auto stat = text.has_value() ? ParseTaskStat(*text) : std::nullopt;
  if (!stat.has_value() || stat->state == 'Z' || stat->state == 'X') return false;
  const Number user = user_ns_.Step(Times(stat->user_ticks(), NsPerTick()));
  const Number system = system_ns_.Step(Times(stat->system_ticks(), NsPerTick()));
  look.user_percent = Percent(user, interval_ns);
  look.system_percent = Percent(system, interval_ns);
  look.cpu_percent = Percent(Plus(user, system), interval_ns);
  look.major_faults = major_faults_.Step(stat->major_faults());
  const Number throttled = throttled_ns_.Step(throttled_.Read(scratch_));
  if (throttled.has_value()) look.throttled_ms = static_cast<double>(*throttled) / 1e6;
  return true;
}

void TargetWatch::LookAtMemory(TargetLook& look) {
  std::string_view statm = statm_.Read(scratch_).value_or("");  // "size resident shared …" in pages
  look.vms = Times(ParseNumber(TakeWord(statm)), PageSize());
  look.rss = Times(ParseNumber(TakeWord(statm)), PageSize());
  look.shared = Times(ParseNumber(TakeWord(statm)), PageSize());
  look.swap = FindKilobytes(status_.Read(scratch_).value_or(""), "VmSwap:");
  look.cgroup = memory_limit_;
}

void TargetWatch::LookAtIo(TargetLook& look) {
  const auto text = io_.Read(scratch_);
  if (!text.has_value()) return;
  look.has_io = true;
  look.read_bytes = read_bytes_.Step(FindNumber(*text, "read_bytes:"));
  look.write_bytes = write_bytes_.Step(FindNumber(*text, "write_bytes:"));
  look.read_calls = read_calls_.Step(FindNumber(*text, "syscr:"));
  look.write_calls = write_calls_.Step(FindNumber(*text, "syscw:"));
}

void TargetWatch::LookAtThreads(TargetLook& look, std::int64_t interval_ns) {
  const std::vector<pid_t> tids = ListTasks(tasks_.get(), scratch_);
  std::erase_if(threads_, [&](const auto& entry) {
    return !std::binary_search(tids.begin(), tids.end(), entry.first);
  });
  std::vector<ThreadWatch*> wanting;
  for (const pid_t tid : tids) {
    ThreadWatch& thread = threads_.try_emplace(tid, tasks_.get(), tid, budget_).first->second;
    thread.Look(interval_ns, scratch_);
    if (thread.needs_details()) wanting.push_back(&thread);
  }
  ReadDetails(wanting, interval_ns);

  bool all_known = looks_ >= 2;  // a single look says nothing about an interval
  std::int64_t voluntary = 0;
  std::int64_t involuntary = 0;
  look.threads.reserve(threads_.size());
  for (const auto& [tid, thread] : threads_) {
    const ThreadLook& last = thread.last();
    look.threads.push_back(&last);
    all_known = all_known && last.has_details;
    voluntary += last.voluntary_switches.value_or(0);
    involuntary += last.involuntary_switches.value_or(0);
  }
  if (!all_known) return;
  look.voluntary_switches = voluntary;
  look.involuntary_switches = involuntary;
}

void TargetWatch::ReadDetails(std::vector<ThreadWatch*>& wanting, std::int64_t interval_ns) {
  std::stable_sort(wanting.begin(), wanting.end(),
                   [](const ThreadWatch* a, const ThreadWatch* b) { return a->run_ns() > b->run_ns(); });
  for (std::size_t i = 0; i < wanting.size(); ++i) {
    if (i >= kMostDetails && !wanting[i]->must_have_details()) {
      wanting[i]->ForgetDetails();
    } else if (!wanting[i]->ReadDetails(interval_ns, scratch_)) {
      threads_.erase(wanting[i]->last().tid);  // it has ended; its number may be another thread's now
    }
  }
}

void TargetWatch::FindChildren() {
  child_pids_.clear();
  bool is_told = false;
  for (auto& [tid, thread] : threads_) is_told = thread.ListChildren(child_pids_, scratch_) || is_told;
  if (is_told) {
    for (std::size_t i = 0, direct = child_pids_.size(); i < direct; ++i) {
      const std::vector<pid_t> theirs = FindDescendants(child_pids_[i], proc_root_);
      child_pids_.insert(child_pids_.end(), theirs.begin(), theirs.end());
    }
  } else {
    child_pids_ = FindDescendants(pid_, proc_root_);
  }
  for (const pid_t pid : child_pids_) {
    if (children_.contains(pid)) continue;
    const std::string path = proc_root_ + "/" + std::to_string(pid);
    ScopedFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) continue;
    KeptFile stat(folder.get(), "stat", budget_);
    children_.emplace(pid, Child{std::move(folder), std::move(stat), {}});
  }
}

void TargetWatch::LookAtChildren(TargetLook& look, std::int64_t interval_ns) {
  Number rss = 0;
  Number cpu_ns = 0;
  for (auto it = children_.begin(); it != children_.end();) {
    Child& child = it->second;
    const auto text = child.stat.Read(scratch_);
    const auto stat = text.has_value() ? ParseTaskStat(*text) : std::nullopt;
    if (!stat.has_value()) {
      it = children_.erase(it);
      continue;
    }
    const Number step = child.cpu_ns.Step(Times(Plus(stat->user_ticks(), stat->system_ticks()), NsPerTick()));
    cpu_ns = Plus(cpu_ns, step.value_or(0));
    rss = Plus(rss, Times(stat->fields[24], PageSize()).value_or(0));
    ++it;
  }
  look.children_rss = rss;
  if (looks_ >= 2) look.children_percent = Percent(cpu_ns, interval_ns);
}

}  // namespace probing::observe
