// Settings: of the daemon, and of one target (in its probe and in the daemon).
#include "base/text.h"
#include "daemon/api_probe.h"
#include "daemon/audit.h"
#include "daemon/log.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using Answer = asio::awaitable<Result<Json>>;

namespace {

const char* TypeName(wire::SettingType type) {
  using enum wire::SettingType;
  switch (type) {
    case kSeconds:
      return "seconds";
    case kBytes:
      return "bytes";
    case kCount:
      return "count";
    case kShare:
      return "share";
    case kFlag:
      return "flag";
    case kChoice:
      return "choice";
    case kWords:
      return "words";
    case kPath:
      return "path";
    case kAddresses:
    case kPeers:
    case kStore:
    case kTorchSpec:
    case kNames:
    case kBounds:
    case kUrl:
    case kHeaders:
    case kSystemLog:
    case kPattern:
      break;
  }
  return "text";
}

// For forms: what kind of value it is, and what it may be.
Json SettingToJson(const wire::Setting& setting, std::string_view value) {
  Json json{{"name", setting.name},
            {"value", wire::ShownValue(setting, value)},
            {"default", setting.default_value},
            {"description", setting.description},
            {"type", TypeName(setting.type)}};
  if (setting.maximum > setting.minimum) {
    json["minimum"] = setting.minimum;
    json["maximum"] = setting.maximum;
  }
  if (!setting.choices.empty()) json["choices"] = Json::array();
  for (std::string_view rest = setting.choices; !rest.empty();)
    json["choices"].push_back(TakePart(rest, '|'));
  return json;
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
    const Result<wire::Message> answer = co_await AskProbe(daemon, pid, std::move(checked->to_probe));
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
    Json shown = Json::object();
    for (const auto& [name, value] : Assignments(set)) shown[name] = wire::ShownValue(name, value);
    Audit("config",
          {{"by", request.peer}, {"target", pid->has_value() ? Json(**pid) : Json()}, {"set", shown}});
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

}  // namespace

void AddConfigRoutes(server::Router& router, Daemon& daemon) {
  using server::Request;
  using enum server::Right;
  router.Add("GET", wire::kConfigRoute, kRead,
             [&](const Request& request) { return Config(daemon, request); });
  router.Add("POST", wire::kConfigRoute, kEval,
             [&](const Request& request) { return Config(daemon, request); });
}

}  // namespace probing::daemon
