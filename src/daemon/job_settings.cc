#include "daemon/job_settings.h"

#include <memory>
#include <set>
#include <utility>

#include "daemon/audit.h"
#include "daemon/log.h"
#include "process/status.h"

namespace probing::daemon {
namespace {

void Take(Daemon& daemon, const Target& target, std::string_view name) {
  const Result<const wire::Setting*> setting = wire::FindSetting(name);
  if (!setting.ok()) return;
  const std::string variable = wire::EnvironmentName(**setting);
  const Result<std::string> text = process::StartupEnvironment(target.pid, variable);
  if (!text.ok() || text->empty()) return;
  const Result<std::string> value = wire::CanonicalValue(**setting, *text);
  const std::string by = variable + " of target " + std::to_string(target.pid);
  if (!value.ok()) return Log(LogLevel::kWarn, by + " is not used: " + value.error().message);
  const std::string_view now = daemon.settings.Get(name);
  if (now == *value) return;
  if (now != (*setting)->default_value) {
    return Log(LogLevel::kWarn, by + " is not used: " + std::string(name) + " is " +
                                    wire::ShownValue(**setting, now) + " already; `probing config " +
                                    std::string(name) + "=…` changes it");
  }
  if (const Result<void> set = daemon.settings.Set(name, *value); !set.ok()) return;
  Log(LogLevel::kInfo, std::string(name) + " is " + wire::ShownValue(**setting, *value) + ", by " + by);
  Audit("config", {{"by", by}, {"set", {{std::string(name), wire::ShownValue(**setting, *value)}}}});
}

}  // namespace

void FollowSettingsOfJobs(Daemon& daemon) {
  const auto seen = std::make_shared<std::set<std::pair<pid_t, std::uint64_t>>>();
  daemon.targets.OnHello([&daemon, seen] {
    for (const Target* target : daemon.targets.Shown()) {
      if (!target->may_request || target->state != TargetState::kLive) continue;
      if (!seen->emplace(target->pid, target->start_ticks).second) continue;
      for (const std::string_view name :
           {"probing.store", "probing.cluster.peers", "probing.stalls.limit", "probing.stalls.step_factor",
            "probing.stalls.exceptions", "probing.stalls.metrics", "probing.outlets.webhook",
            "probing.outlets.webhook_headers", "probing.outlets.otlp", "probing.outlets.otlp_headers",
            "probing.outlets.syslog", "probing.outlets.interval", "probing.outlets.repeat",
            "probing.outlets.authority"})
        Take(daemon, *target, name);
    }
  });
}

}  // namespace probing::daemon
