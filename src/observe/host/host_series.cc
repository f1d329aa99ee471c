#include "observe/host/host_series.h"

#include "base/clock.h"
#include "observe/gpu/gpus.h"

namespace probing::observe {
namespace {

// Health of GPUs and the counters of RDMA ports change slowly and cost more: each is looked at in one of so
// many ticks.
constexpr std::uint64_t kRareTicks = 5;

constexpr std::int64_t kSilenceNs = 20'000'000'000;  // after which a driver is called silent

auto OpenGpus(const GpuOptions& options) {
  return [options]() -> BackgroundSampler<std::vector<GpuLook>>::Take {
    std::shared_ptr<Gpus> gpus = Gpus::Load(options);  // with the copies of the function below
    if (!gpus->available()) return {};
    return [gpus, looks = std::uint64_t{0}]() mutable {
      return gpus->Look(looks++ % kRareTicks == 0 ? GpuDepth::kHealth : GpuDepth::kUsage);
    };
  };
}

auto OpenRdma(const GpuOptions& options) {
  return [options]() -> BackgroundSampler<std::vector<RdmaLook>>::Take {
    auto watch = std::make_shared<RdmaWatch>(NameOf(options.sys_root, "PROBING_SYSFS", "/sys"));  // as above
    if (!watch->available()) return {};
    return [watch] { return watch->Look(); };
  };
}

}  // namespace

HostSeries::HostSeries(const HostSeriesOptions& options)
    : proc_root_(options.proc_root),
      budget_(FileBudget::HalfOfTheLimit()),
      host_(&budget_, options.proc_root),
      gpus_(OpenGpus(options.gpu)),
      rdma_(OpenRdma(options.gpu)) {}

Result<void> HostSeries::Add(pid_t pid, ring::Arena& arena, const TargetSeriesOptions& options) {
  ASSIGN_OR_RETURN(auto watch, TargetWatch::Open(pid, &budget_, proc_root_));
  ASSIGN_OR_RETURN(auto series, TargetSeries::Create(arena, options));
  ASSIGN_OR_RETURN(auto devices, DeviceSeries::Create(arena, options.rows));
  targets_.erase(pid);
  targets_.emplace(pid, Target{std::move(watch), std::move(series), std::move(devices), {}});
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
    ++it;
  }
  WriteDevices();
  ++ticks_;
  return ended;
}

void HostSeries::WriteConnections(Target& target) {
  const std::string folder = proc_root_ + "/" + std::to_string(target.watch->pid());
  const auto* connections = networks_.Connections(folder);
  if (connections == nullptr || connections->empty()) return;
  target.series.WriteConnections(WallNs(), target.connections.Look(SocketsOf(folder), *connections));
}

// Looks were taken in the meantime: a driver that hangs must not hold up the rest.
void HostSeries::WriteDevices() {
  const std::int64_t silent_ns = gpus_.busy_ns();
  const bool is_silent = silent_ns > kSilenceNs && MonotonicNs() - last_silence_ns_ > kSilenceNs / 2;
  if (is_silent) last_silence_ns_ = MonotonicNs();
  const auto gpus = gpus_.TakeLast();
  const auto rdma = ticks_ % kRareTicks == 0 ? rdma_.TakeLast() : decltype(rdma_)::Sample();
  const std::int64_t interval_ns = last_rdma_ns_ == 0 ? 0 : rdma.time_ns - last_rdma_ns_;
  if (rdma.look) last_rdma_ns_ = rdma.time_ns;
  for (auto& [pid, target] : targets_) {
    if (is_silent) target.devices.WriteSilence(WallNs(), silent_ns);
    if (rdma.look) target.devices.WriteRdma(rdma.time_ns, interval_ns, *rdma.look);
    if (!gpus.look || gpus.look->empty()) continue;
    std::vector<pid_t> pids = target.watch->children();
    pids.push_back(pid);
    target.devices.WriteGpus(gpus.time_ns, *gpus.look, pids);
  }
}

}  // namespace probing::observe
