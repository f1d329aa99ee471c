// POST events: another program says that something happened, and what the target did is kept.
#include "daemon/api_stalls.h"

#include "base/clock.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

constexpr double kMostSeconds = 3600;
constexpr std::size_t kMaxNameBytes = 500;

Result<double> Number(const Json& body, const char* name, double otherwise, double maximum) {
  const auto field = body.find(name);
  if (field == body.end()) return otherwise;
  const double number = field->is_number() ? field->get<double>() : -1;
  if (number >= 0 && number <= maximum) return number;
  return Error{Code::kUsage,
               std::string(name) + " is a number from 0 to " + std::to_string(static_cast<int>(maximum)), ""};
}

asio::awaitable<Result<Json>> PostEvent(Daemon& daemon, Stalls& stalls, const Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Json name = request.body.value("name", Json(""));
  if (!name.is_string() || name.get<std::string>().empty())
    co_return Error{Code::kUsage, "an event needs a name", R"(as in {"target": 1234, "name": "timeout"})"};
  const Result<double> ago = Number(request.body, "ago", 0, kMostSeconds);
  if (!ago.ok()) co_return ago.error();
  const Result<double> duration = Number(request.body, "duration", 0, kMostSeconds);
  if (!duration.ok()) co_return duration.error();
  const Result<double> record = Number(request.body, "record", 0, 60);
  if (!record.ok()) co_return record.error();
  observe::Stall stall;
  stall.kind = "event";
  stall.start_ns = MonotonicNs() - static_cast<std::int64_t>(*ago * 1e9);
  stall.duration_ns = static_cast<std::int64_t>(*duration * 1e9);
  stall.why = name.get<std::string>().substr(0, kMaxNameBytes);
  const Result<void> added = stalls.Add(*pid, stall);
  if (!added.ok()) co_return added.error();
  if (*record > 0) {
    const auto duration_ms = static_cast<std::int64_t>(*record * 1e3);
    const Result<void> begun =
        co_await daemon.sampling.Trigger(*pid, {.hz = 200, .duration_ms = duration_ms, .reason = stall.why});
    if (!begun.ok()) co_return begun.error();
  }
  co_return Json::object();
}

}  // namespace

void AddStallRoutes(server::Router& router, Daemon& daemon, Stalls& stalls) {
  router.Add("POST", wire::kEventsRoute, server::Right::kProfile,
             [&](const Request& request) { return PostEvent(daemon, stalls, request); });
}

}  // namespace probing::daemon
