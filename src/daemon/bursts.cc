#include "daemon/bursts.h"

#include <algorithm>

#include "base/clock.h"
#include "daemon/log.h"
#include "daemon/profile_json.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

namespace {

constexpr flame::Profile::Limits kLimits{.samples = 50'000, .table_bytes = 8 << 20};

}  // namespace

asio::awaitable<Result<void>> Bursts::Start(pid_t pid, observe::Trigger trigger,
                                            const observe::SamplerOptions& sampler) {
  if (!(trigger.hz > 0) || trigger.hz > observe::kMaxHz || trigger.duration_ms <= 0 ||
      trigger.duration_ms > kMaxDurationMs) {
    co_return Error{Code::kUsage, "a burst has at most 1000 samples per second and takes at most a minute",
                    ""};
  }
  trigger.reason.resize(std::min(trigger.reason.size(), kMaxReasonBytes));
  {
    std::deque<Burst>& known = bursts_[pid];
    if (!known.empty() && known.back().sampler.is_running()) {
      ++known.back().ignored;
      co_return Result<void>();
    }
    SamplerThread::Options options;
    options.recorder.hz = trigger.hz;
    options.recorder.limits = kLimits;
    options.recorder.sampler = sampler;
    options.recorder.reason = trigger.reason;
    options.seconds = static_cast<double>(trigger.duration_ms) / 1e3;
    known.push_back({SamplerThread(io_.get_executor(), {{pid}}, options), trigger.reason, MonotonicNs()});
    if (known.size() > kKept) known.pop_front();
  }
  // Other triggers may come and go meanwhile; the deque may be another one afterwards.
  const std::int64_t started_ns = bursts_[pid].back().started_ns;
  const Result<void> started = co_await bursts_[pid].back().sampler.Started();
  if (!started.ok()) {
    std::erase_if(bursts_[pid], [&](const Burst& burst) { return burst.started_ns == started_ns; });
    if (bursts_[pid].empty()) bursts_.erase(pid);
    co_return started;
  }
  Log(LogLevel::kInfo, "target " + std::to_string(pid) + " is looked at closely: " + trigger.reason);
  co_return started;
}

Json Bursts::ToJson(pid_t pid) const {
  Json list = Json::array();
  const auto found = bursts_.find(pid);
  if (found == bursts_.end()) return list;
  for (const Burst& burst : found->second) {
    Json one{{"reason", burst.reason}, {"running", burst.sampler.is_running()}, {"ignored", burst.ignored}};
    burst.sampler.Look([&](const observe::Recorder& recorder) {
      one["period_ns"] = recorder.profile().period_ns();
      one["samples_taken"] = recorder.samples_taken();
      one["lost"] = LossesToJson(recorder.profile().losses());
      one["folded"] = FoldedToJson(recorder.profile());
    });
    list.push_back(std::move(one));
  }
  return list;
}

void Bursts::ForgetOld(std::int64_t age_ns) {
  const std::int64_t oldest_ns = MonotonicNs() - age_ns;
  for (auto& [pid, bursts] : bursts_) {
    std::erase_if(bursts, [&](const Burst& burst) {
      return !burst.sampler.is_running() && burst.started_ns < oldest_ns;
    });
  }
  std::erase_if(bursts_, [](const auto& entry) { return entry.second.empty(); });
}

std::size_t Bursts::running() const {
  std::size_t count = 0;
  for (const auto& [pid, bursts] : bursts_) count += !bursts.empty() && bursts.back().sampler.is_running();
  return count;
}

}  // namespace probing::daemon
