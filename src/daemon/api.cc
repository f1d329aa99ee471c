#include "daemon/api.h"

#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <chrono>

#include "base/clock.h"
#include "base/file.h"
#include "daemon/audit.h"
#include "daemon/gil_holder.h"
#include "daemon/log.h"
#include "process/status.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using namespace std::chrono_literals;
using Answer = asio::awaitable<Result<Json>>;

namespace {

constexpr auto kProbeTimeout = 5000ms;  // for verbs that do next to nothing
constexpr auto kEvalSlack = 3000ms;     // the probe's own deadline comes first: its answer says why
constexpr double kMaxEvalSeconds = 86400;
constexpr std::size_t kAuditedCode = 1000;
// What an eval may say beyond its code; evaluate.py knows what it means.
constexpr std::array kEvalFields{"op", "session", "thread", "frame", "whole", "arguments"};

template <typename Integer>
std::optional<Integer> ParseInteger(std::string_view text) {
  Integer number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Whether a probe can answer, before one waits for it in vain.
Result<void> CheckReachable(Daemon& daemon, pid_t pid) {
  const std::string name = "process " + std::to_string(pid);
  if (daemon.targets.HasEnded(pid)) {
    return Error{Code::kNotFound, name + " has ended", "`probing list` shows what is left"};
  }
  ASSIGN_OR_RETURN(const process::Status found, process::ReadStatus(pid));
  // Seen for the first time, perhaps in a namespace we do not look into.
  RETURN_IF_ERROR(daemon.targets.Attach(pid));
  if (found.state == 'T') {
    return Error{Code::kFailed, name + " is stopped, so its probe cannot answer",
                 "`kill -CONT " + std::to_string(pid) + "` lets it go on"};
  }
  return {};
}

asio::awaitable<Result<wire::Message>> Ask(Daemon& daemon, pid_t pid, wire::Message request,
                                           std::chrono::milliseconds timeout = kProbeTimeout) {
  const Result<void> reachable = CheckReachable(daemon, pid);
  if (!reachable.ok()) co_return reachable.error();
  Result<ProbeLink> link = ProbeLink::Open(daemon.io.get_executor(), pid);
  if (!link.ok()) co_return link.error();
  co_return co_await link->Call(std::move(request), timeout);
}

// The probe's fields as they come; integers become numbers.
Json FieldsToJson(const wire::Message& message) {
  Json object = Json::object();
  for (const auto& [key, value] : message.fields()) {
    const std::optional<std::int64_t> number = ParseInteger<std::int64_t>(value);
    object[key] = number ? Json(*number) : Json(value);
  }
  return object;
}

Json TargetToJson(const Target& target) {
  return {{"pid", target.pid},         {"user", target.user},      {"state", TargetStateName(target.state)},
          {"python", target.python},   {"how", target.how},        {"started_ns", target.started_ns},
          {"version", target.version}, {"command", target.command}};
}

Json SettingToJson(const wire::Setting& setting, std::string_view value) {
  return {{"name", setting.name},
          {"value", value},
          {"default", setting.default_value},
          {"description", setting.description}};
}

std::int64_t ResidentBytes() {
  const Result<std::string> statm = ReadFile("/proc/self/statm");
  if (!statm.ok()) return 0;
  const std::size_t space = statm->find(' ') + 1;
  return ParseInteger<std::int64_t>(statm->substr(space, statm->find(' ', space) - space)).value_or(0) *
         sysconf(_SC_PAGESIZE);
}

std::string Addresses(const Daemon& daemon) {
  std::string list;
  for (const wire::Address& address : daemon.server.addresses())
    list += (list.empty() ? "" : ", ") + address.ToText();
  return list;
}

Answer GetHealth(const server::Request&) {
  co_return Json{{"status", "ok"}, {"version", PROBING_VERSION}, {"pid", getpid()}};
}

Answer ListAll(Daemon& daemon) {
  co_await daemon.targets.Refresh();
  Json list = Json::array();
  for (const Target* target : daemon.targets.Shown()) list.push_back(TargetToJson(*target));
  co_return Json{{"targets", std::move(list)}};
}

Answer GetStatus(Daemon& daemon, const server::Request& request) {
  Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  if (!pid->has_value()) {
    co_await daemon.targets.Refresh();
    co_return Json{{"pid", getpid()},
                   {"version", PROBING_VERSION},
                   {"uptime_s", (MonotonicNs() - daemon.started_ns) / 1'000'000'000},
                   {"targets", daemon.targets.live()},
                   {"rss_bytes", ResidentBytes()},
                   {"listening", Addresses(daemon)}};
  }
  const Result<wire::Message> probe = co_await Ask(daemon, **pid, wire::Message::Request(0, "status"));
  if (!probe.ok()) co_return probe.error();
  const Result<process::Status> status = process::ReadStatus(**pid);
  if (!status.ok()) co_return status.error();
  co_return Json{{"pid", **pid},
                 {"command", process::CommandLine(**pid)},
                 {"process_state", std::string(1, status->state)},
                 {"process_threads", status->threads},
                 {"probe", FieldsToJson(*probe)}};
}

Answer EvaluateIn(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const auto code = request.body.find("code");
  if (code == request.body.end() || !code->is_string()) co_return Error{Code::kUsage, "eval needs code", ""};
  wire::Message message = wire::Message::Request(0, "eval").Set("code", code->get<std::string>());
  for (const char* field : kEvalFields) {
    const auto value = request.body.find(field);
    if (value == request.body.end()) continue;
    message.Set(field, value->is_string() ? value->get<std::string>() : value->dump());
  }
  std::chrono::milliseconds patience = 24h;  // the probe has a deadline of its own
  if (const auto timeout = request.body.find("timeout"); timeout != request.body.end()) {
    const double seconds = timeout->is_number() ? timeout->get<double>() : 0;
    if (!(seconds > 0 && seconds <= kMaxEvalSeconds)) {
      co_return Error{Code::kUsage, "the timeout of an eval is a number of seconds above 0", ""};
    }
    const auto timeout_ms = std::max<std::int64_t>(1, static_cast<std::int64_t>(seconds * 1000));
    message.Set("timeout_ms", timeout_ms);
    patience = std::chrono::milliseconds(timeout_ms) + kEvalSlack;
  }
  Audit("eval",
        {{"by", request.peer}, {"target", *pid}, {"code", code->get<std::string>().substr(0, kAuditedCode)}});
  if (const auto wait = request.body.find("gil_timeout"); wait != request.body.end() && wait->is_number()) {
    message.Set("gil_timeout_ms", static_cast<std::int64_t>(wait->get<double>() * 1000));
  }
  // When the client goes away this ends, and with it the connection: the probe takes that as
  // a cancellation of the evaluation, wherever it is in its queue.
  const Result<wire::Message> answer = co_await Ask(daemon, *pid, std::move(message), patience);
  if (!answer.ok()) co_return answer.error();
  Json object{{"stdout", ""}, {"stderr", ""}};
  for (const auto& [key, value] : answer->fields()) {
    // Not by its looks: the value of `1+1` is the text "2".
    object[key] = key.ends_with("_us") ? Json(answer->GetNumber(key)) : Json(value);
  }
  if (answer->Get("gil") == "unavailable") {
    if (const std::optional<GilHolder> holder = FindGilHolder(*pid)) {
      object["gil_holder"] = {{"tid", holder->tid}, {"name", holder->name}, {"stack", holder->stack}};
    }
  }
  co_return object;
}

// Stops the evaluation of a session, wherever it is; it is answered where it was asked for.
Answer PostInterrupt(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  wire::Message message = wire::Message::Request(0, "interrupt");
  message.Set("session", request.body.value("session", ""));
  const Result<wire::Message> answer = co_await Ask(daemon, *pid, std::move(message));
  if (!answer.ok()) co_return answer.error();
  co_return Json::object();
}

// A debugger says that it is still there, and learns whether a thread has stopped since.
Answer PostDebugger(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Result<wire::Message> answer = co_await Ask(daemon, *pid, wire::Message::Request(0, "debugger"));
  if (!answer.ok()) co_return answer.error();
  co_return FieldsToJson(*answer);
}

// REQUIRES: `set` is an object. Values may be given as JSON numbers and booleans too.
std::vector<std::pair<std::string, std::string>> Assignments(const Json& set) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const auto& [name, value] : set.items()) {
    list.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return list;
}

// All or nothing: a list with one bad value changes none.
Result<void> ChangeOwnSettings(Daemon& daemon, const Json& set) {
  wire::Settings changed = daemon.settings;
  for (const auto& [name, value] : Assignments(set)) RETURN_IF_ERROR(changed.Set(name, value));
  RETURN_IF_ERROR(daemon.listening.Apply(changed));
  daemon.settings = std::move(changed);
  SetLogLevel(daemon.settings.Get("probing.loglevel"));
  return {};
}

// What is set for one target: in its probe, and in the daemon.
struct TargetSettings {
  wire::Message to_probe = wire::Message::Request(0, "config");
  bool needs_probe = true;
  std::optional<double> sample_rate;
  std::optional<bool> sample_native;
};

Result<TargetSettings> CheckTargetSettings(const Json& set) {
  TargetSettings checked;
  wire::Settings probe(wire::Holder::kProbe);
  wire::Settings own(wire::Holder::kDaemonPerTarget);
  // To read settings, or to change one of the probe's, there must be a probe.
  checked.needs_probe = set.empty();
  for (const auto& [name, value] : Assignments(set)) {
    ASSIGN_OR_RETURN(const wire::Setting* setting, wire::FindSetting(name));
    if (setting->holder == wire::Holder::kDaemonPerTarget) {
      RETURN_IF_ERROR(own.Set(name, value));
      if (name == kSampleRate) checked.sample_rate = own.GetNumber(name);
      if (name == kSampleNative) checked.sample_native = own.GetFlag(name);
    } else {
      RETURN_IF_ERROR(probe.Set(name, value));
      checked.to_probe.Set("set:" + name, probe.Get(name));
      checked.needs_probe = true;
    }
  }
  return checked;
}

Answer ConfigOfTarget(Daemon& daemon, pid_t pid, const Json& set) {
  Result<TargetSettings> checked = CheckTargetSettings(set);
  if (!checked.ok()) co_return checked.error();
  Json list = Json::array();
  if (checked->needs_probe) {
    const Result<wire::Message> answer = co_await Ask(daemon, pid, std::move(checked->to_probe));
    if (!answer.ok()) co_return answer.error();
    for (const auto& [name, value] : answer->fields()) {
      const Result<const wire::Setting*> setting = wire::FindSetting(name);
      if (setting.ok()) list.push_back(SettingToJson(**setting, value));
    }
  }
  if (checked->sample_native) {
    const Result<void> changed = co_await daemon.sampling.SetNative(pid, *checked->sample_native);
    if (!changed.ok()) co_return changed.error();
  }
  if (checked->sample_rate) {
    const Result<void> changed = co_await daemon.sampling.SetRate(pid, *checked->sample_rate);
    if (!changed.ok()) co_return changed.error();
  }
  const Result<const wire::Setting*> sample_rate = wire::FindSetting(kSampleRate);
  if (sample_rate.ok()) list.push_back(SettingToJson(**sample_rate, daemon.sampling.Rate(pid)));
  const Result<const wire::Setting*> native = wire::FindSetting(kSampleNative);
  if (native.ok()) list.push_back(SettingToJson(**native, daemon.sampling.Native(pid) ? "true" : "false"));
  co_return Json{{"settings", std::move(list)}};
}

Answer Config(Daemon& daemon, const server::Request& request) {
  const Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  const Json set = request.body.value("set", Json::object());
  if (!set.is_object()) co_return Error{Code::kUsage, "config takes {set: {name: value}}", ""};
  if (!set.empty()) {
    Audit("config",
          {{"by", request.peer}, {"target", pid->has_value() ? Json(**pid) : Json()}, {"set", set}});
  }
  Json list = Json::array();
  if (!pid->has_value()) {
    const Result<void> changed = ChangeOwnSettings(daemon, set);
    if (!changed.ok()) co_return changed.error();
    for (const auto& [setting, value] : daemon.settings.all()) list.push_back(SettingToJson(*setting, value));
    co_return Json{{"settings", std::move(list)}};
  }
  co_return co_await ConfigOfTarget(daemon, **pid, set);
}

Answer PostEject(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  const Result<wire::Message> answer = co_await Ask(daemon, *pid, wire::Message::Request(0, "eject"));
  if (!answer.ok()) co_return answer.error();
  daemon.targets.Forget(*pid);
  Audit("eject", {{"by", request.peer}, {"target", *pid}});
  Log(LogLevel::kInfo, "target " + std::to_string(*pid) + " was asked to eject its probe");
  co_return FieldsToJson(*answer);
}

Answer PostProfile(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  co_return co_await daemon.sampling.Record(*pid, request.body);
}

Answer GetSamples(Daemon& daemon, const server::Request& request) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) co_return pid.error();
  co_return daemon.sampling.Samples(*pid);
}

asio::awaitable<Result<server::Content>> PostQuery(Daemon& daemon, const server::Request& request) {
  const Result<std::optional<pid_t>> pid = TargetOf(request);
  if (!pid.ok()) co_return pid.error();
  co_return co_await daemon.queries.Answer(request, *pid);
}

asio::awaitable<void> ShutDownSoon(Daemon& daemon) {
  asio::steady_timer answered(daemon.io, 20ms);  // whoever asked should read the answer
  co_await answered.async_wait(asio::use_awaitable);
  daemon.shutdown();
}

Answer PostShutdown(Daemon& daemon) {
  asio::co_spawn(daemon.io, ShutDownSoon(daemon), asio::detached);
  co_return Json::object();
}

}  // namespace

Result<std::optional<pid_t>> TargetOf(const server::Request& request) {
  std::string text;
  if (const auto query = request.query.find("target"); query != request.query.end()) {
    text = query->second;
  } else if (const auto field = request.body.find("target"); field != request.body.end()) {
    text = field->is_string() ? field->get<std::string>() : field->dump();
  } else {
    return std::optional<pid_t>();
  }
  const std::optional<pid_t> pid = ParseInteger<pid_t>(text);
  if (!pid || *pid <= 0) return Error{Code::kUsage, "\"" + text + "\" is not a target", "a target is a pid"};
  return pid;
}

Result<pid_t> RequiredTarget(const server::Request& request) {
  ASSIGN_OR_RETURN(const std::optional<pid_t> pid, TargetOf(request));
  if (!pid) return Error{Code::kUsage, request.path + " needs a target", ""};
  return *pid;
}

Answer Evaluate(Daemon& daemon, const server::Request& request) { return EvaluateIn(daemon, request); }

Answer ListTargets(Daemon& daemon) { return ListAll(daemon); }

asio::awaitable<Result<Json>> QueryRows(Daemon& daemon, std::string sql, std::optional<pid_t> target) {
  server::Request request;
  request.path = std::string(wire::kQueryRoute);
  request.body = Json{{"sql", std::move(sql)}, {"format", "rows"}};
  const Result<server::Content> answer = co_await daemon.queries.Answer(request, target);
  if (!answer.ok()) co_return answer.error();
  Json rows = Json::parse(answer->body, nullptr, false);
  if (!rows.is_object()) co_return Error{Code::kFailed, "the query gave no rows", ""};
  co_return rows;
}

void AddRoutes(server::Router& router, Daemon& daemon) {
  using server::Request;
  using enum server::Right;
  router.Add("GET", wire::kHealthRoute, kRead, GetHealth);
  router.Add("GET", wire::kTargetsRoute, kRead, [&](const Request&) { return ListAll(daemon); });
  router.Add("GET", wire::kStatusRoute, kRead,
             [&](const Request& request) { return GetStatus(daemon, request); });
  router.Add("POST", wire::kEvalRoute, kEval,
             [&](const Request& request) { return EvaluateIn(daemon, request); });
  router.Add("POST", wire::kInterruptRoute, kEval,
             [&](const Request& request) { return PostInterrupt(daemon, request); });
  router.Add("POST", wire::kDebuggerRoute, kEval,
             [&](const Request& request) { return PostDebugger(daemon, request); });
  router.Add("GET", wire::kConfigRoute, kRead,
             [&](const Request& request) { return Config(daemon, request); });
  router.Add("POST", wire::kConfigRoute, kEval,
             [&](const Request& request) { return Config(daemon, request); });
  router.Add("POST", wire::kEjectRoute, kEval,
             [&](const Request& request) { return PostEject(daemon, request); });
  router.Add("POST", wire::kProfileRoute, kProfile,
             [&](const Request& request) { return PostProfile(daemon, request); });
  router.Add("GET", wire::kSamplesRoute, kRead,
             [&](const Request& request) { return GetSamples(daemon, request); });
  router.AddContent("POST", wire::kQueryRoute, kRead,
                    [&](const Request& request) { return PostQuery(daemon, request); });
  router.Add("POST", wire::kShutdownRoute, kOwn, [&](const Request&) { return PostShutdown(daemon); });
  AddStackRoutes(router, daemon);
  AddServerRoutes(router, daemon);
  AddLiveRoutes(router, daemon);
  AddMetrics(router, daemon);
  AddMcp(router, daemon);
  AddWebPage(router, daemon);
}

}  // namespace probing::daemon
