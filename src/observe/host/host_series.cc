#include "observe/host/host_series.h"

#include "base/clock.h"

namespace probing::observe {

HostSeries::HostSeries(const HostSeriesOptions& options)
    : proc_root_(options.proc_root),
      budget_(FileBudget::HalfOfTheLimit()),
      host_(&budget_, options.proc_root),
      gpus_(options.nvml_library) {}

Result<void> HostSeries::Add(pid_t pid, ring::Arena& arena, const TargetSeriesOptions& options) {
  ASSIGN_OR_RETURN(auto watch, TargetWatch::Open(pid, &budget_, proc_root_));
  ASSIGN_OR_RETURN(auto series, TargetSeries::Create(arena, options));
  targets_.erase(pid);
  targets_.emplace(pid, Target{std::move(watch), std::move(series), {}});
  return {};
}

void HostSeries::Remove(pid_t pid) { targets_.erase(pid); }

std::vector<pid_t> HostSeries::Tick() {
  std::vector<pid_t> ended;
  if (targets_.empty()) return ended;
  const std::int64_t now_ns = MonotonicNs();
  const std::int64_t interval_ns = last_tick_ns_ == 0 ? 0 : now_ns - last_tick_ns_;
  last_tick_ns_ = now_ns;
  const HostLook host = host_.Look(interval_ns);
  networks_.BeginTick();
  // Taken in the meantime: a driver that hangs must not hold up the rest.
  const GpuSampler::Sample gpus = gpus_.TakeLast();
  for (auto it = targets_.begin(); it != targets_.end();) {
    Target& target = it->second;
    const auto look = target.watch->Look(interval_ns);
    if (!look.ok()) {
      ended.push_back(it->first);
      it = targets_.erase(it);
      continue;
    }
    target.series.Write(WallNs(), interval_ns, host, *look);
    WriteConnections(target);
    if (!gpus.looks.empty()) WriteGpus(target, gpus);
    ++it;
  }
  return ended;
}

void HostSeries::WriteConnections(Target& target) {
  const std::string folder = proc_root_ + "/" + std::to_string(target.watch->pid());
  const auto* connections = networks_.Connections(folder);
  if (connections == nullptr || connections->empty()) return;
  target.series.WriteConnections(WallNs(), target.connections.Look(SocketsOf(folder), *connections));
}

void HostSeries::WriteGpus(Target& target, const GpuSampler::Sample& sample) {
  std::vector<pid_t> pids = target.watch->children();
  pids.push_back(target.watch->pid());
  target.series.WriteGpus(sample.time_ns, sample.looks, pids);
}

}  // namespace probing::observe
