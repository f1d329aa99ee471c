// GET /metrics: the text format of Prometheus. Facts about targets come from the same tables as all else.
#include "daemon/metrics.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/clock.h"
#include "daemon/api.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

namespace {

// The order of the columns of kSql behind pid, rank, name.
constexpr std::array kTargetMetrics{
    Metric{"probing_process_resident_memory_bytes", "gauge", "Resident memory of a target.",
           "probing.process.resident_memory", "By"},
    Metric{"probing_process_virtual_memory_bytes", "gauge", "Mapped memory of a target.",
           "probing.process.virtual_memory", "By"},
    Metric{"probing_process_threads", "gauge", "Threads of a target.", "probing.process.threads", "{thread}"},
    Metric{"probing_process_open_fds", "gauge", "Open file descriptors of a target.",
           "probing.process.open_fds", "{descriptor}"},
    Metric{"probing_process_cpu_ratio", "gauge", "Cores a target took on average since it started.",
           "probing.process.cpu", "1"},
    Metric{"probing_process_read_bytes_total", "counter", "Bytes a target read from storage.",
           "probing.process.read", "By"},
    Metric{"probing_process_written_bytes_total", "counter", "Bytes a target wrote to storage.",
           "probing.process.written", "By"},
    Metric{"probing_train_step", "gauge", "Number of the last training step.", "probing.train.step",
           "{step}"},
    Metric{"probing_train_step_seconds", "gauge", "Duration of the last training step.",
           "probing.train.step_duration", "s"},
};
constexpr const char* kSql = R"(
WITH steps AS (
  SELECT pid, max(step) AS steps, arg_max(duration, timestamp) AS seconds FROM python.torch_steps
  WHERE phase IS DISTINCT FROM 'validate' GROUP BY pid)
SELECT process.pid, targets.rank, targets.name, process.rss, process.vms, process.threads, process.fds,
       process.cpu_percent / 100, process.read_bytes, process.write_bytes, steps.steps, steps.seconds
FROM system.process AS process JOIN probing.targets AS targets ON targets.pid = process.pid
LEFT JOIN steps ON steps.pid = process.pid
WHERE targets.state = 'live' ORDER BY process.pid)";

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return escaped;
}

std::string Number(const Json& value) {
  if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  std::array<char, 64> text{};
  const double number = value.get<double>();
  if (!std::isfinite(number)) return "NaN";
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::string(text.data(), end) : "NaN";
}

std::string Head(const Metric& metric) {
  return std::string("# HELP ") + metric.name + " " + metric.help + "\n# TYPE " + metric.name + " " +
         metric.type + "\n";
}

std::string LabelsOf(const Json& row) {
  std::string labels = "{pid=\"" + row[0].dump() + "\"";
  if (row[1].is_number()) labels += ",rank=\"" + row[1].dump() + "\"";
  if (row[2].is_string()) labels += ",name=\"" + Escaped(row[2].get<std::string>()) + "\"";
  return labels + "}";
}

std::string TextOf(const Json& rows) {
  std::string text;
  for (std::size_t i = 0; i < kTargetMetrics.size(); ++i) {
    std::string samples;
    for (const Json& row : rows) {
      const Json& value = row[kMetricLabels + i];
      if (value.is_number()) samples += kTargetMetrics[i].name + LabelsOf(row) + " " + Number(value) + "\n";
    }
    if (!samples.empty()) text += Head(kTargetMetrics[i]) + samples;
  }
  return text;
}

std::string One(const Metric& metric, const std::string& value, const std::string& labels = "") {
  return Head(metric) + metric.name + labels + " " + value + "\n";
}

std::string OwnMetrics(const Daemon& daemon) {
  const server::HttpServer::Counters& counters = daemon.server.counters();
  return One({"probing_build_info", "gauge", "Which probingd this is."}, "1",
             "{version=\"" PROBING_VERSION "\"}") +
         One({"probing_targets", "gauge", "Live targets."}, std::to_string(daemon.targets.live())) +
         One({"probing_uptime_seconds", "gauge", "Since probingd was started."},
             std::to_string((MonotonicNs() - daemon.started_ns) / 1'000'000'000)) +
         One({"probing_http_requests_total", "counter", "Requests answered."},
             std::to_string(counters.requests)) +
         One({"probing_http_refused_total", "counter", "Requests turned away: token, host or origin."},
             std::to_string(counters.refused)) +
         One({"probing_http_evicted_total", "counter", "Idle connections closed to make room."},
             std::to_string(counters.evicted)) +
         One({"probing_http_connections", "gauge", "Open connections."},
             std::to_string(daemon.server.open_connections()));
}

asio::awaitable<Result<server::Content>> GetMetrics(Daemon& daemon) {
  std::string text = OwnMetrics(daemon);
  // Without a target nobody needs a query engine.
  if (daemon.targets.live() > 0) {
    const Result<Json> rows = co_await TargetMetricRows(daemon);
    if (!rows.ok()) co_return rows.error();
    text += TextOf((*rows)["rows"]);
  }
  co_return server::Content{"text/plain; version=0.0.4; charset=utf-8", std::move(text), 200, {}};
}

}  // namespace

std::span<const Metric> TargetMetrics() { return kTargetMetrics; }

asio::awaitable<Result<Json>> TargetMetricRows(Daemon& daemon) { co_return co_await QueryRows(daemon, kSql); }

void AddMetrics(server::Router& router, Daemon& daemon) {
  router.AddContent("GET", wire::kMetricsRoute, server::Right::kRead,
                    [&](const server::Request&) { return GetMetrics(daemon); });
}

}  // namespace probing::daemon
