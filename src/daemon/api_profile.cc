// torch's profiler in a target: switched on by the probe, its trace read here.
#include <memory>
#include <utility>
#include <vector>

#include "daemon/audit.h"
#include "daemon/probe_file.h"
#include "daemon/shared_rings.h"
#include "trace/reader.h"
#include "trace/rows.h"
#include "trace/timeline.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using namespace std::chrono_literals;
using server::Json;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr double kMostSeconds = 3600;
constexpr std::int64_t kMostSteps = 100'000;
constexpr auto kSlack = 60s;  // torch puts its trace together and writes it

// What the probe is asked, or a usage error.
Result<wire::Message> RequestFor(const Json& body, const wire::Settings& settings) {
  wire::Message message = wire::Message::Request(0, "eval");
  message.Set("at", "step");  // so that probing.eval.step_hold comes along
  const Json steps = body.value("steps", Json()), seconds = body.value("seconds", Json());
  if (steps.is_null() == seconds.is_null())
    return Error{Code::kUsage, "a profile takes a number of steps or of seconds", "as in --steps 3"};
  if (!steps.is_null()) {
    if (!steps.is_number_integer() || steps.get<std::int64_t>() < 1 || steps.get<std::int64_t>() > kMostSteps)
      return Error{Code::kUsage, "steps is a whole number from 1 to 100000", ""};
    message.Set("steps", steps.get<std::int64_t>());
  }
  if (!seconds.is_null()) {
    const double number = seconds.is_number() ? seconds.get<double>() : 0;
    if (!(number > 0 && number <= kMostSeconds))
      return Error{Code::kUsage, "seconds is a number above 0 and at most 3600", ""};
    message.Set("seconds", std::to_string(number));
  }
  const Json patience = body.value("patience", Json(60));
  if (!patience.is_number() || !(patience.get<double>() > 0 && patience.get<double>() <= kMostSeconds))
    return Error{Code::kUsage, "patience is a number of seconds above 0 and at most 3600", ""};
  message.Set("patience", std::to_string(patience.get<double>()));
  if (const Json from = body.value("from_ns", Json()); from.is_number_integer())
    message.Set("from_ns", from.get<std::int64_t>());
  for (const char* flag : {"shapes", "stacks"}) {
    if (body.value(flag, Json()) == true) message.Set(flag, "1");
  }
  message.Set("memory_limit", static_cast<std::int64_t>(settings.GetNumber("probing.profile.memory")));
  const double longest = 2 * patience.get<double>() + (seconds.is_number() ? seconds.get<double>() : 0);
  message.Set("timeout_ms", static_cast<std::int64_t>(longest * 1000) + 1000 * kSlack.count());
  return message;
}

struct Recorded {
  trace::Rings rings;
  std::size_t ops = 0, gpu = 0;
  std::uint64_t bytes = 0;
  std::string problem;
};

Result<Recorded> ReadRecorded(trace::ByteSource& source, const Json& about, std::size_t most_events) {
  ASSIGN_OR_RETURN(trace::ReadTrace trace, trace::Read(source, most_events));
  const Json times = about.value("times", Json::array());
  for (std::size_t i = 1; i < times.size(); ++i) {
    trace.events.steps.push_back(
        {times[i - 1].get<std::int64_t>(), times[i].get<std::int64_t>(), static_cast<std::int64_t>(i)});
  }
  trace::Arrange(trace.events);
  Recorded recorded;
  ASSIGN_OR_RETURN(recorded.rings, trace::WriteRows(trace.events, about.value("profile", std::int64_t{0})));
  recorded.ops = trace.events.ops.size();
  recorded.gpu = trace.events.gpu.size();
  recorded.bytes = source.position();
  recorded.problem = std::move(trace.problem);
  if (recorded.rings.lost > 0)
    recorded.problem += (recorded.problem.empty() ? "" : "; ") + std::to_string(recorded.rings.lost) +
                        " rows are left out, there is no memory";
  return recorded;
}

// Numbers that came from the target: whole ones, in a list that is no longer than it may be.
bool IsSound(const Json& about) {
  const Json times = about.value("times", Json());
  if (!about.value("profile", Json()).is_number_integer() || !times.is_array() || times.empty() ||
      times.size() > kMostSteps + 1000)
    return false;
  for (const Json& time : times) {
    if (!time.is_number_integer()) return false;
  }
  return true;
}

Answer PostProfile(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  Result<wire::Message> question = RequestFor(request.body, daemon.settings);
  if (!question.ok()) co_return question.error();
  Audit("torch_profile", {{"by", request.peer}, {"target", *pid}});
  Result<ProbeFile> answer = co_await AskForFile(daemon, *pid, "profile", std::move(*question), "profile");
  if (!answer.ok()) co_return answer.error();
  const Json& about = answer->about;
  if (!IsSound(about)) co_return Error{Code::kFailed, "no profile: what the probe says makes no sense", ""};
  Result<std::unique_ptr<trace::ByteSource>> source = trace::ByteSource::Open(answer->Path());
  if (!source.ok()) co_return source.error();
  const auto most_events = static_cast<std::size_t>(daemon.settings.GetNumber("probing.trace.events"));
  Result<Recorded> recorded =
      co_await Aside(daemon, [&] { return ReadRecorded(**source, about, most_events); });
  if (!recorded.ok()) co_return recorded.error();
  const Json& times = about["times"];
  Json told{
      {"profile", about["profile"]}, {"steps", times.size() - 1}, {"from_ns", times.front()},
      {"to_ns", times.back()},       {"ops", recorded->ops},      {"gpu", recorded->gpu},
      {"bytes", recorded->bytes},    {"trace", answer->Path()},   {"ended_by", about.value("ended_by", "")},
      {"problem", recorded->problem}};
  daemon.targets.AddProfile(*pid, SharedRings(std::move(recorded->rings)), std::move(answer->file));
  co_return told;
}

}  // namespace

void AddProfileRoute(server::Router& router, Daemon& daemon) {
  router.Add("POST", wire::kTorchProfileRoute, server::Right::kProfile,
             [&](const server::Request& request) { return PostProfile(daemon, request); });
}

}  // namespace probing::daemon
