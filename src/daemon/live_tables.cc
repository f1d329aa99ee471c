#include "daemon/live_tables.h"

#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "daemon/host_name.h"
#include "daemon/job_json.h"
#include "flame/escape.h"
#include "wire/message.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace {

using table::Rows;
using table::Value;

constexpr std::int64_t kLiveTimeoutMs = 5000;
constexpr std::int64_t kLiveSlackMs = 1000;  // the probe's own answer says why

// Adds rows by the names of their columns; what the query does not want is not stored.
class Builder {
 public:
  Builder(const table::Table& table, const std::vector<std::size_t>& columns)
      : rows_(table::TypesOf(table, columns)) {
    for (const std::size_t column : columns) names_.push_back(table.columns[column].name);
  }

  void Add(std::initializer_list<std::pair<std::string_view, Value>> row) {
    std::vector<Value> values;
    for (const std::string_view name : names_) {
      const auto found =
          std::find_if(row.begin(), row.end(), [&](const auto& value) { return value.first == name; });
      values.push_back(found == row.end() ? Value() : found->second);
    }
    rows_.Add(std::move(values));
  }

  Rows Take() { return std::move(rows_); }

 private:
  std::vector<std::string_view> names_;
  Rows rows_;
};

Value OrNull(const std::string& text) { return text.empty() ? Value() : Value(text); }
Value OrNull(std::optional<std::int64_t> number) { return number ? Value(*number) : Value(); }

void AddTargets(const Targets& targets, const table::Target* about, Builder& rows) {
  for (const Target* target : targets.Shown()) {
    if (about != nullptr && about->pid != target->pid) continue;
    const process::JobIdentity& identity = target->identity;
    const server::Json job = JobToJson(identity);
    rows.Add({{"pid", std::int64_t{target->pid}},
              {"name", target->name},
              {"state", std::string(TargetStateName(target->state))},
              {"python", OrNull(target->python)},
              {"version", OrNull(target->version)},
              {"since", target->started_ns},
              {"cmdline", target->command},
              {"job", identity.job},
              {"job_role", OrNull(process::JobRoleName(identity.role))},
              {"launcher", OrNull(identity.launcher)},
              {"world_size", OrNull(identity.world_size)},
              {"local_rank", OrNull(identity.local_rank)},
              {"node_rank", OrNull(identity.node_rank)},
              {"restart", OrNull(identity.restart)},
              {"parallel", OrNull(identity.parallel.empty() ? "" : server::JsonText(job["parallel"]))},
              {"variables", OrNull(identity.variables.empty() ? "" : server::JsonText(job["variables"]))}});
  }
}

void AddSettings(const wire::Settings& settings, Builder& rows) {
  for (const auto& [setting, value] : settings.all()) {
    rows.Add({{"name", std::string(setting->name)},
              {"value", wire::ShownValue(*setting, value)},
              {"default_value", std::string(setting->default_value)},
              {"description", std::string(setting->description)}});
  }
}

void AddHistory(const History& history, const table::Target& about, Builder& rows) {
  const std::string directory = history.directory().value_or("");
  for (const history::TableStatus& table : history.status().tables) {
    if (table.pid != about.pid) continue;
    rows.Add({{"table_name", table.table},
              {"rows", table.rows},
              {"files", table.files},
              {"lost", table.lost},
              {"problem", OrNull(history.status().problem)},
              {"directory", directory}});
  }
}

void AddStore(const History& history, Builder& rows) {
  const std::string store = history.store().value_or("");
  for (const history::StoreStatus& table : history.status().store) {
    rows.Add({{"table_name", table.table},
              {"sent", table.sent},
              {"waiting", table.waiting},
              {"dropped", table.dropped},
              {"lost", table.lost},
              {"problem", OrNull(table.problem)},
              {"store", store}});
  }
  if (const std::string& problem = history.status().store_problem; !problem.empty())
    rows.Add({{"problem", problem}, {"store", store}});
}

void AddOutlets(const Outlets& outlets, Builder& rows) {
  for (const OutletStatus& outlet : outlets.status()) {
    const auto time = [](std::int64_t ns) { return ns == 0 ? Value() : Value(ns); };
    const outlet::SenderStatus& status = outlet.status;
    rows.Add({{"outlet", outlet.name},
              {"url", outlet.url},
              {"sent", static_cast<std::int64_t>(status.sent)},
              {"waiting", static_cast<std::int64_t>(status.waiting)},
              {"failed", static_cast<std::int64_t>(status.failed)},
              {"dropped", static_cast<std::int64_t>(status.dropped)},
              {"open", outlet.open},
              {"last_sent", time(status.sent_ns)},
              {"last_failed", time(status.problem_ns)},
              {"last_error", OrNull(status.problem)}});
  }
}

// This host, and the others.
void AddNodes(const Targets& targets, const cluster::Company& company, Builder& rows) {
  std::string address;
  for (const std::string& directory : wire::RuntimeDirectories(geteuid())) {
    const std::string path = directory + "/probingd.sock";
    if (address.empty() && access(path.c_str(), F_OK) == 0) address = "unix:" + path;
  }
  rows.Add({{"host", OrNull(HostName())},
            {"node", address},
            {"state", std::string("up")},
            {"version", std::string(PROBING_VERSION)},
            {"ranks", static_cast<std::int64_t>(targets.live())},
            {"last_seen", WallNs()},
            {"clock_offset_ms", 0.0},
            {"clock_error_ms", 0.0},
            {"found_by", std::string("itself")},
            {"epoch", company.epoch}});
  for (const cluster::Member& member : company.members) {
    const bool seen = member.last_seen_ns != 0;
    const bool is_host = member.address.port != 0;
    rows.Add({{"host", OrNull(member.host)},
              {"node", member.node},
              {"state", std::string(!is_host                 ? "unknown"
                                    : member.problem.empty() ? "up"
                                                             : "down")},
              {"version", OrNull(member.version)},
              {"ranks", seen ? Value(member.ranks) : Value()},
              {"last_seen", seen ? Value(member.last_seen_ns) : Value()},
              {"clock_offset_ms", seen ? Value(member.clock_offset_ms) : Value()},
              {"clock_error_ms", seen ? Value(member.clock_error_ms) : Value()},
              {"found_by", OrNull(member.found_by)},
              {"epoch", company.epoch},
              {"problem", OrNull(member.problem.empty() ? member.VersionProblem() : member.problem)}});
  }
}

std::string Folded(const flame::Profile& profile, flame::StackId stack) {
  std::string text;
  for (const flame::FrameId id : profile.FramesOf(stack)) {
    const flame::Frame& frame = profile.frames()[id];
    if (!text.empty()) text += ';';
    text += flame::CollapsedText(frame.function);
    if (!frame.file.empty()) text += " (" + flame::CollapsedText(frame.file) + ")";
  }
  return text;
}

void AddSamples(const flame::Profile& profile, Builder& rows) {
  const std::int64_t wall_offset_ns = WallNs() - MonotonicNs();
  std::map<flame::StackId, std::string> texts;
  for (const flame::Sample& sample : profile.samples()) {
    auto text = texts.find(sample.stack);
    if (text == texts.end()) text = texts.emplace(sample.stack, Folded(profile, sample.stack)).first;
    rows.Add({{"timestamp", sample.start_ns + wall_offset_ns},
              {"tid", std::int64_t{profile.threads()[sample.thread].tid}},
              {"stack", text->second},
              {"on_cpu", sample.on_cpu},
              {"has_gil", sample.has_gil},
              {"weight", static_cast<double>(profile.DurationNs(sample)) / 1e9}});
  }
}

}  // namespace

Result<Rows> DaemonRows(const DaemonState& state, const table::Table& table, const table::Target* target,
                        const std::vector<std::size_t>& columns) {
  Builder rows(table, columns);
  if (table.name == "probing.targets") {
    AddTargets(state.targets, target, rows);
  } else if (table.name == "probing.config") {
    AddSettings(state.settings, rows);
  } else if (table.name == "probing.history") {
    AddHistory(state.history, *target, rows);
  } else if (table.name == "probing.store") {
    AddStore(state.history, rows);
  } else if (table.name == "probing.outlets") {
    AddOutlets(state.outlets, rows);
  } else if (table.name == "cluster.nodes") {
    AddNodes(state.targets, state.company, rows);
  } else if (table.name == "python.samples") {
    state.sampling.Look(static_cast<pid_t>(target->pid),
                        [&](const flame::Profile& profile) { AddSamples(profile, rows); });
  } else {
    return Error{Code::kFailed, "nobody makes rows for " + std::string(table.name) + " yet", ""};
  }
  return rows.Take();
}

Result<Rows> AskProbe(const table::Table& table, const table::Target& target,
                      const std::vector<std::size_t>& columns) {
  Result<ScopedFd> probe = wire::ConnectToProbe(static_cast<pid_t>(target.pid));
  if (!probe.ok()) {
    // Among many targets one without a probe, or one that has ended, has no rows.
    if (probe.error().code == Code::kNotFound) return Rows(table::TypesOf(table, columns));
    return probe.error();
  }
  wire::Message request = wire::Message::Request(1, "live").Set("table", std::string(table.name));
  for (const std::size_t column : columns) request.Set("column", std::string(table.columns[column].name));
  request.Set("timeout_ms", kLiveTimeoutMs);
  ASSIGN_OR_RETURN(const wire::Message answer,
                   wire::Call(probe->get(), request, kLiveTimeoutMs + kLiveSlackMs));
  if (std::optional<Error> failure = answer.failure()) return std::move(*failure);
  if (!answer.Get("outcome").empty()) {
    return Error{Code::kTimeout,
                 "process " + std::to_string(target.pid) + " did not make the rows of " +
                     std::string(table.name) + " in time: " + std::string(answer.Get("note")),
                 "look what it does: `probing -t " + std::to_string(target.pid) + " backtrace`"};
  }
  return Rows::Decode(answer.Get("rows"));
}

}  // namespace probing::daemon
