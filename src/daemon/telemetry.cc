#include "daemon/telemetry.h"

#include <map>
#include <string>

#include "base/clock.h"
#include "daemon/host_name.h"
#include "daemon/metrics.h"

namespace probing::daemon {
namespace asio = boost::asio;
namespace otlp = outlet::otlp;
using server::Json;

namespace {

// How long a span waits for the one around it. The columns are read by SpanOf().
constexpr const char* kSpanSql = R"(
WITH RECURSIVE spans AS MATERIALIZED (
  SELECT pid, span, parent, name, kind, step, tid, attributes, epoch_ns(timestamp) AS begun,
         epoch_ns(timestamp) + CAST(coalesce(duration_ms, 0) * 1e6 AS BIGINT) AS ended
  FROM python.spans),
tree AS (
  SELECT s.*, s.span AS top, s.begun AS top_begun, 0 AS depth,
         s.ended + CASE WHEN s.parent IS NULL THEN 0 ELSE {hold} END AS known
  FROM spans AS s LEFT JOIN spans AS p ON p.pid = s.pid AND p.span = s.parent AND p.kind = 'span'
       AND p.ended <= s.ended + {hold}
  WHERE p.span IS NULL
  UNION ALL
  SELECT s.*, t.top, t.top_begun, t.depth + 1, t.known FROM spans AS s
  JOIN tree AS t ON s.pid = t.pid AND s.parent = t.span AND t.kind = 'span' AND t.ended <= s.ended + {hold}
  WHERE t.depth < 64),
steps AS (
  SELECT pid, NULL::BIGINT AS span, NULL::BIGINT AS parent, coalesce(phase, 'train') || ' step' AS name, 'step' AS kind,
         step, NULL::BIGINT AS tid, NULL::VARCHAR AS attributes, epoch_ns(timestamp) AS begun,
         epoch_ns(timestamp) + CAST(duration * 1e9 AS BIGINT) AS ended, NULL::BIGINT AS top,
         epoch_ns(timestamp) AS top_begun, 0 AS depth, ended AS known,
         data_wait, forward, backward, optimizer
  FROM python.torch_steps)
SELECT pid, span, parent, name, kind, step, tid, attributes, begun, ended, top, top_begun, depth,
       data_wait, forward, backward, optimizer, count(*) OVER () AS total
FROM (SELECT * FROM steps UNION ALL BY NAME SELECT * FROM tree)
WHERE known > {from} AND known <= {until} AND ended >= begun ORDER BY known, begun LIMIT {most})";
constexpr std::int64_t kHoldNs = 60'000'000'000;

std::string Replaced(std::string text, const std::string& word, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
    text.replace(at, word.size(), by);
  return text;
}

// The command line is left out: programs get secrets there.
otlp::Attributes ResourceOf(const Daemon& daemon, pid_t pid) {
  otlp::Attributes resource{{"host.name", HostName()}, {"process.pid", std::int64_t{pid}}};
  for (const Target* target : daemon.targets.Known()) {
    if (target->pid != pid) continue;
    const process::JobIdentity& identity = target->identity;
    const bool is_job = !identity.job.empty() && identity.job != "local";
    const std::string name = is_job ? identity.job : target->name;
    const auto valid = [](const std::string& text) {
      const Json again = Json::parse(server::JsonText(Json(text)), nullptr, false);
      return again.is_string() ? again.get<std::string>() : std::string();
    };
    resource.push_back({"service.name", valid(name)});
    resource.push_back({"service.instance.id",
                        HostName() + ":" + std::to_string(pid) + ":" + std::to_string(target->start_ticks)});
    if (!target->python.empty()) resource.push_back({"process.runtime.version", valid(target->python)});
    if (identity.rank) resource.push_back({"probing.rank", std::int64_t{*identity.rank}});
    return resource;
  }
  resource.push_back({"service.name", std::string("python")});
  return resource;
}

std::int64_t Integer(const Json& value) { return value.is_number_integer() ? value.get<std::int64_t>() : 0; }

otlp::Span SpanOf(const Json& row, const std::string& instance) {
  const bool is_step = row[4] == "step";
  const std::string process = instance + "/" + row[0].dump() + "/";
  const auto id = [&](const Json& span) { return otlp::SpanId(process + span.dump()); };
  otlp::Span span;
  const std::string step = process + "step " + row[5].dump() + " " + row[8].dump();
  span.trace_id = otlp::TraceId(is_step ? step : process + row[10].dump() + " " + row[11].dump());
  span.id = is_step ? otlp::SpanId(step) : id(row[1]);
  // What is around the top of a trace is none of it.
  if (!is_step && Integer(row[12]) > 0) span.parent_id = id(row[2]);
  span.name = row[3].is_string() ? row[3].get<std::string>() : "span";
  span.start_ns = Integer(row[8]);
  span.end_ns = Integer(row[9]);
  const auto add = [&](const char* name, const Json& value) {
    if (value.is_number_integer()) span.attributes.push_back({name, value.get<std::int64_t>()});
    if (value.is_number_float()) span.attributes.push_back({name, value.get<double>()});
    if (value.is_string()) span.attributes.push_back({name, value.get<std::string>()});
  };
  add("probing.kind", row[4]);
  add("probing.step", row[5]);
  add("thread.id", row[6]);
  add("probing.data_wait", row[13]);
  add("probing.forward", row[14]);
  add("probing.backward", row[15]);
  add("probing.optimizer", row[16]);
  const Json own = row[7].is_string() ? Json::parse(row[7].get<std::string>(), nullptr, false) : Json();
  if (own.is_object()) {
    for (const auto& [name, value] : own.items())
      add(name.c_str(), value.is_primitive() ? value : Json(server::JsonText(value)));
  }
  return span;
}

}  // namespace

otlp::Attributes OwnResource() {
  return {{"service.name", std::string("probingd")},
          {"service.version", std::string(PROBING_VERSION)},
          {"host.name", HostName()}};
}

asio::awaitable<Result<std::vector<otlp::About<otlp::Metric>>>> MetricsForOtlp(Daemon& daemon) {
  const Result<Json> answer = co_await TargetMetricRows(daemon);
  if (!answer.ok()) co_return answer.error();
  std::vector<otlp::About<otlp::Metric>> groups;
  const std::int64_t now_ns = WallNs();
  for (const Json& row : (*answer)["rows"]) {
    otlp::About<otlp::Metric> group;
    group.resource = ResourceOf(daemon, static_cast<pid_t>(Integer(row[0])));
    for (std::size_t i = 0; i < TargetMetrics().size(); ++i) {
      const Metric& metric = TargetMetrics()[i];
      const Json& value = row[kMetricLabels + i];
      if (!value.is_number() || *metric.otlp_name == '\0') continue;
      group.items.push_back({.name = metric.otlp_name,
                             .description = metric.help,
                             .unit = metric.unit,
                             .is_counter = std::string_view(metric.type) == "counter",
                             .value = value.get<double>(),
                             .start_ns = 0,
                             .time_ns = now_ns});
    }
    if (!group.items.empty()) groups.push_back(std::move(group));
  }
  co_return groups;
}

asio::awaitable<Result<SpansForOtlp>> SpansOf(Daemon& daemon, std::int64_t from_ns, std::int64_t until_ns) {
  std::string sql = Replaced(kSpanSql, "{hold}", std::to_string(kHoldNs));
  sql = Replaced(std::move(sql), "{from}", std::to_string(from_ns));
  sql = Replaced(std::move(sql), "{until}", std::to_string(until_ns));
  sql = Replaced(std::move(sql), "{most}", std::to_string(kMostSpans));
  const Result<Json> answer = co_await QueryRows(daemon, sql);
  if (!answer.ok()) co_return answer.error();
  SpansForOtlp spans;
  std::map<pid_t, otlp::About<otlp::Span>> by_process;
  for (const Json& row : (*answer)["rows"]) {
    spans.left_out = static_cast<std::uint64_t>(Integer(row[17])) - (*answer)["rows"].size();
    const auto pid = static_cast<pid_t>(Integer(row[0]));
    auto& group = by_process[pid];
    if (group.resource.empty()) group.resource = ResourceOf(daemon, pid);
    group.items.push_back(SpanOf(row, HostName()));
    ++spans.count;
  }
  for (auto& [pid, group] : by_process) spans.groups.push_back(std::move(group));
  co_return spans;
}

}  // namespace probing::daemon
