#include "daemon/sampling.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <optional>

#include "base/clock.h"
#include "daemon/log.h"
#include "daemon/profile_json.h"
#include "process/status.h"
#include "wire/settings.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

namespace {

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr int kTries = 30;  // a program may load Python long after it started
constexpr std::int64_t kEndedKeptNs = 60'000'000'000;
constexpr double kMaxSeconds = 3600;
constexpr std::int64_t kFarthestStartNs = 60'000'000'000;
constexpr flame::Profile::Limits kRecordingLimits{.samples = 200'000, .table_bytes = 32 << 20};

Result<double> NumberIn(const Json& request, const char* name, double otherwise, double maximum) {
  const auto field = request.find(name);
  if (field == request.end()) return otherwise;
  const double number = field->is_number() ? field->get<double>() : 0;
  if (number > 0 && number <= maximum) return number;
  return Error{
      Code::kUsage,
      std::string(name) + " is a number above 0 and at most " + std::to_string(static_cast<int>(maximum)),
      ""};
}

Result<observe::SamplerOptions::Tasks> TasksIn(const Json& request) {
  using Tasks = observe::SamplerOptions::Tasks;
  const Json tasks = request.value("tasks", Json("none"));
  if (tasks == "none") return Tasks::kNone;
  if (tasks == "running") return Tasks::kRunning;
  if (tasks == "all") return Tasks::kAll;
  return Error{Code::kUsage, "tasks is none, running or all", ""};
}

// When to begin, on the monotonic clock: "start_ns" is wall time. 0: at once.
Result<std::int64_t> StartIn(const Json& request) {
  const auto field = request.find("start_ns");
  if (field == request.end()) return std::int64_t{0};
  const std::int64_t wall_ns = field->is_number_integer() ? field->get<std::int64_t>() : 0;
  const std::int64_t now_ns = WallNs();
  if (wall_ns <= 0 || wall_ns > now_ns + kFarthestStartNs || wall_ns < now_ns - kFarthestStartNs) {
    return Error{Code::kUsage, "start_ns is a time within a minute from now, in ns since 1970",
                 "are the clocks of these hosts far apart?"};
  }
  return wall_ns - now_ns + MonotonicNs();
}

std::string RateText(double seconds) {
  const Result<const wire::Setting*> setting = wire::FindSetting(kSampleRate);
  const Result<std::string> text = setting.ok() ? wire::CanonicalValue(**setting, std::to_string(seconds))
                                                : Result<std::string>(setting.error());
  return text.ok() ? *text : "0";
}

// Whether the target was started with the wish for native frames.
bool NativeFromEnvironment(pid_t pid) {
  const Result<const wire::Setting*> setting = wire::FindSetting(kSampleNative);
  if (!setting.ok()) return false;
  const Result<std::string> text = process::StartupEnvironment(pid, wire::EnvironmentName(**setting));
  const Result<std::string> canonical =
      text.ok() ? wire::CanonicalValue(**setting, *text) : Result<std::string>(text.error());
  return canonical.ok() && *canonical == "true";
}

// The rate a target was started with (PROBING_SAMPLE_RATE, or PROBE_PPROF=0 and =1), or the usual one; also
// for one that may not ask.
double FirstRate(std::optional<pid_t> pid) {
  const Result<const wire::Setting*> setting = wire::FindSetting(kSampleRate);
  if (!setting.ok()) return 0;
  const auto variable = [&](const std::string& name) -> Result<std::string> {
    if (!pid) return Error{Code::kNotFound, "", ""};
    return process::StartupEnvironment(*pid, name);
  };
  Result<std::string> text = variable(wire::EnvironmentName(**setting));
  if (!text.ok()) {
    const Result<std::string> pprof = variable("PROBE_PPROF");
    text = pprof.ok() && *pprof == "0" ? "0" : std::string((*setting)->default_value);
  }
  Result<std::string> canonical = wire::CanonicalValue(**setting, *text);
  if (!canonical.ok()) {
    Log(LogLevel::kWarn, "target " + std::to_string(pid.value_or(0)) + ": " + canonical.error().message);
    canonical = std::string((*setting)->default_value);
  }
  double seconds = 0;
  std::from_chars(canonical->data(), canonical->data() + canonical->size(), seconds);
  return seconds;
}

}  // namespace

asio::awaitable<Result<void>> Sampling::SetRate(pid_t pid, double seconds) {
  chosen_.insert(pid);
  co_return co_await Run(pid, seconds, /*with_probe=*/false);
}

asio::awaitable<Result<void>> Sampling::Run(pid_t pid, double seconds, bool with_probe) {
  if (seconds == 0) {
    continuous_.erase(pid);
    co_return Result<void>();
  }
  if (1 / seconds > observe::kMaxHz) {
    co_return Error{Code::kUsage, std::string(kSampleRate) + " is at least 0.001",
                    "that is 1000 samples per second"};
  }
  SamplerThread::Options options;
  options.recorder.hz = 1 / seconds;
  options.recorder.limits =
      flame::Profile::Limits::Within(static_cast<std::size_t>(settings_.GetNumber(kSampleMemory)));
  options.recorder.sampler = SamplerOptionsOf(Native(pid));
  SamplerThread sampler(io_.get_executor(), {{pid}}, options);
  Result<void> started = co_await sampler.Started();
  if (!started.ok()) co_return started;
  continuous_.insert_or_assign(pid, Continuous{std::move(sampler), RateText(seconds), seconds, with_probe});
  Log(LogLevel::kInfo, "target " + std::to_string(pid) + " is sampled every " + RateText(seconds) + " s");
  co_return started;
}

asio::awaitable<Result<void>> Sampling::SetNative(pid_t pid, bool native) {
  const bool changed = native ? native_.insert(pid).second : native_.erase(pid) > 0;
  const auto found = continuous_.find(pid);
  if (!changed || found == continuous_.end()) co_return Result<void>();
  co_return co_await Run(pid, found->second.seconds, found->second.with_probe);
}

observe::SamplerOptions Sampling::SamplerOptionsOf(bool native) const {
  return {.native_symbols = native ? symbols_ : nullptr};
}

asio::awaitable<Result<void>> Sampling::Trigger(pid_t pid, const observe::Trigger& trigger) {
  co_return co_await bursts_.Start(pid, trigger, SamplerOptionsOf(Native(pid)));
}

std::string Sampling::Rate(pid_t pid) const {
  const auto found = continuous_.find(pid);
  return found != continuous_.end() && found->second.sampler.is_running() ? found->second.rate : "0";
}

asio::awaitable<Result<void>> Sampling::RecordThen(std::vector<observe::Root> roots, const Json& request,
                                                   std::function<void(const observe::Recorder&)> look) {
  SamplerThread::Options options;
  const Result<double> seconds = NumberIn(request, "seconds", 10, kMaxSeconds);
  if (!seconds.ok()) co_return seconds.error();
  const bool children = request.value("subprocesses", Json(false)) == true;
  const bool several = children || roots.size() > 1;
  const Result<double> hz = NumberIn(request, "hz", 100, several ? observe::kMaxHz : observe::kMaxHzOfOne);
  if (!hz.ok()) co_return hz.error();
  options.seconds = *seconds;
  options.recorder.hz = *hz;
  options.recorder.follow_children = children;
  options.recorder.sampler = SamplerOptionsOf(request.value("native", Json(false)) == true);
  const Result<observe::SamplerOptions::Tasks> tasks = TasksIn(request);
  if (!tasks.ok()) co_return tasks.error();
  options.recorder.sampler.tasks = *tasks;
  const Json reason = request.value("reason", Json(""));
  if (reason.is_string()) options.recorder.reason = reason.get<std::string>().substr(0, kMaxReasonBytes);
  options.recorder.limits = kRecordingLimits;
  const Result<std::int64_t> start_ns = StartIn(request);
  if (!start_ns.ok()) co_return start_ns.error();
  options.recorder.start_ns = *start_ns;
  if (const Json seed = request.value("seed", Json()); seed.is_number_unsigned())
    options.recorder.seed = seed.get<std::uint64_t>();
  SamplerThread sampler(io_.get_executor(), std::move(roots), options);
  const Result<void> started = co_await sampler.Started();
  if (!started.ok()) co_return started.error();
  co_await sampler.Ended();
  sampler.Look(look);
  co_return Result<void>();
}

asio::awaitable<Result<Json>> Sampling::Record(std::vector<observe::Root> roots, const Json& request) {
  Json answer{{"pid", roots.front().pid}};
  const Result<void> recorded =
      co_await RecordThen(std::move(roots), request,
                          [&](const observe::Recorder& recorder) { answer.update(ProfileToJson(recorder)); });
  if (!recorded.ok()) co_return recorded.error();
  co_return answer;
}

Result<Json> Sampling::Samples(pid_t pid) const {
  const auto found = continuous_.find(pid);
  Json bursts = bursts_.ToJson(pid);
  if (found == continuous_.end() && !bursts.empty())
    return Json{{"pid", pid}, {"running", false}, {"bursts", std::move(bursts)}};
  if (found == continuous_.end()) {
    return Error{
        Code::kFailed, "process " + std::to_string(pid) + " is not sampled",
        "`probing -t " + std::to_string(pid) + " config " + std::string(kSampleRate) + "=0.1` starts it"};
  }
  Json answer{{"pid", pid}, {"running", found->second.sampler.is_running()}, {"bursts", std::move(bursts)}};
  found->second.sampler.Look([&](const observe::Recorder& recorder) {
    answer["period_ns"] = recorder.profile().period_ns();
    answer["samples_taken"] = recorder.samples_taken();
    answer["lost"] = LossesToJson(recorder.profile().losses());
    answer["folded"] = FoldedToJson(recorder.profile());
  });
  return answer;
}

void Sampling::Look(pid_t pid, const std::function<void(const flame::Profile&)>& look) const {
  const auto found = continuous_.find(pid);
  if (found == continuous_.end()) return;
  found->second.sampler.Look([&](const observe::Recorder& recorder) { look(recorder.profile()); });
}

std::size_t Sampling::running() const {
  return static_cast<std::size_t>(
             std::count_if(continuous_.begin(), continuous_.end(),
                           [](const auto& entry) { return entry.second.sampler.is_running(); })) +
         bursts_.running();
}

void Sampling::Watch() { asio::co_spawn(io_, LookAtTargets(), asio::detached); }

asio::awaitable<void> Sampling::LookAtTargets() {
  while (true) {
    std::map<std::pair<pid_t, std::uint64_t>, int> tries_left;
    std::set<pid_t> known_pids;
    std::set<pid_t> may_request;
    for (const Target* target : targets_.Known()) {
      known_pids.insert(target->pid);
      if (target->may_request) may_request.insert(target->pid);
      // A process of another user is looked at when root asks, and not on its own account.
      if (target->uid != geteuid()) continue;
      const std::pair key(target->pid, target->start_ticks);
      const auto known = tries_left_.find(key);
      if (target->state == TargetState::kLive)
        tries_left[key] = known != tries_left_.end() ? known->second : kTries;
    }
    tries_left_ = std::move(tries_left);
    for (auto& [key, tries] : tries_left_) {
      if (tries > 0) tries = co_await Begin(key.first, may_request.contains(key.first)) ? 0 : tries - 1;
    }
    // The probe was ejected: nobody is interested any more.
    std::erase_if(continuous_, [&](const auto& entry) {
      return entry.second.with_probe && entry.second.sampler.is_running() &&
             !known_pids.contains(entry.first);
    });
    ForgetEnded();
    asio::steady_timer timer(io_, kLookEvery);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

asio::awaitable<bool> Sampling::Begin(pid_t pid, bool may_request) {
  const auto found = continuous_.find(pid);
  const bool runs = found != continuous_.end() && found->second.sampler.is_running();
  if (runs || chosen_.contains(pid)) co_return true;
  if (may_request && NativeFromEnvironment(pid)) native_.insert(pid);
  const double rate = FirstRate(may_request ? std::optional(pid) : std::nullopt);
  const Result<void> started = co_await Run(pid, rate, /*with_probe=*/true);
  if (!started.ok()) Log(LogLevel::kDebug, "cannot sample yet: " + started.error().message);
  co_return started.ok();
}

void Sampling::ForgetEnded() {
  const std::int64_t now_ns = MonotonicNs();
  for (auto& [pid, continuous] : continuous_) {
    if (!continuous.sampler.is_running() && continuous.ended_ns == 0) continuous.ended_ns = now_ns;
  }
  std::erase_if(continuous_, [&](const auto& entry) {
    return entry.second.ended_ns != 0 && now_ns - entry.second.ended_ns > kEndedKeptNs;
  });
  bursts_.ForgetOld(kEndedKeptNs);
  const auto is_gone = [](pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; };
  std::erase_if(native_, is_gone);
  std::erase_if(chosen_, is_gone);
}

}  // namespace probing::daemon
