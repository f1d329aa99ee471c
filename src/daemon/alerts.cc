#include "daemon/alerts.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/clock.h"
#include "base/visible.h"
#include "daemon/host_name.h"

namespace probing::daemon {
using outlet::Alert;
using server::Json;

namespace {

constexpr std::size_t kMostNumbers = 16;                // of ranks, in a label
constexpr std::size_t kMostText = 4000;                 // of an annotation
constexpr const char* kNever = "0001-01-01T00:00:00Z";  // what Go writes for no time

// Names in a target are whatever a program calls them: control characters and bytes that are no UTF-8 stay
// here.
std::string Safe(const std::string& text) {
  std::string visible = Visible(std::string_view(text).substr(0, kMostText));
  if (text.size() > kMostText) visible += " …";
  const Json valid(std::move(visible));
  const std::string quoted = valid.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json again = Json::parse(quoted, nullptr, false);
  return again.is_string() ? again.get<std::string>() : std::string();
}

std::string Text(const Json& value) {
  if (value.is_string()) return Safe(value.get<std::string>());
  return value.is_null() ? std::string() : value.dump();
}

// "0,1,2"; of many the first ones, and how many more there are.
std::string ListText(const Json& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i == kMostNumbers) return text + ",+" + std::to_string(numbers.size() - i);
    text += (i == 0 ? "" : ",") + numbers[i].dump();
  }
  return text;
}

void Add(outlet::Texts& texts, const char* name, std::string value) {
  if (!value.empty()) texts.emplace_back(name, std::move(value));
}

std::string TimeText(std::int64_t ns) {
  const time_t seconds = ns / 1'000'000'000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(ns / 1'000'000 % 1000));
  return text.data();
}

Json ObjectOf(const outlet::Texts& texts) {
  Json object = Json::object();
  for (const auto& [name, value] : texts) object[name] = value;
  return object;
}

// The pairs that all of them have.
Json CommonOf(const std::vector<Alert>& alerts, outlet::Texts Alert::* which) {
  Json common = Json::object();
  if (alerts.empty()) return common;
  for (const auto& pair : alerts[0].*which) {
    bool is_common = true;
    for (const Alert& alert : alerts)
      is_common = is_common && std::ranges::find(alert.*which, pair) != (alert.*which).end();
    if (is_common) common[pair.first] = pair.second;
  }
  return common;
}

std::string Fingerprint(const Alert& alert) {
  std::string text;
  for (const auto& [name, value] : alert.labels) text += name + "=" + value + "\n";
  std::string hex;
  for (const char byte : outlet::otlp::SpanId(text)) {
    std::array<char, 4> two{};
    std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned char>(byte));
    hex += two.data();
  }
  return hex;
}

}  // namespace

Alert AlertOfFinding(const Json& finding) {
  Alert alert;
  alert.severity = Text(finding.value("severity", Json("warning")));
  Add(alert.labels, "alertname", Text(finding["class"]));
  Add(alert.labels, "severity", alert.severity);
  Add(alert.labels, "service", "probing");
  Add(alert.labels, "job", Text(finding["job"]));
  const std::string host = Text(finding["host"]);
  Add(alert.labels, "instance", host.empty() ? HostName() : host);
  Add(alert.labels, "ranks", ListText(finding["ranks"]));
  Add(alert.labels, "pids", ListText(finding["pids"]));
  Add(alert.annotations, "summary", Text(finding["evidence"]));
  Add(alert.annotations, "next", Text(finding["next"]));
  Add(alert.annotations, "rule", Text(finding["rule"]));
  std::string also;
  for (const Json& each : finding.value("also", Json::array()))
    also += (also.empty() ? "" : "; ") + Text(each.value("class", Json())) + ": " +
            Text(each.value("evidence", Json()));
  Add(alert.annotations, "also", also);
  const Json since = finding.value("since_ns", Json());
  if (since.is_number_integer()) alert.begun_ns = since.get<std::int64_t>();
  return alert;
}

std::string StallSql(std::int64_t from_ns) {
  return "SELECT epoch_ns(timestamp) AS at, pid, kind, rank, job, duration, func, file, lineno, why, stack, "
         "thread_name FROM python.stalls WHERE timestamp > now() - INTERVAL 15 MINUTE AND "
         "epoch_ns(timestamp) + "
         "CAST(duration * 1e9 AS BIGINT) >= " +
         std::to_string(from_ns) + " ORDER BY timestamp LIMIT 1000";
}

Alert AlertOfStall(const Json& row) {
  Alert alert;
  alert.severity = "warning";
  Add(alert.labels, "alertname", "stall");
  Add(alert.labels, "severity", alert.severity);
  Add(alert.labels, "service", "probing");
  Add(alert.labels, "kind", Text(row[2]));
  Add(alert.labels, "job", Text(row[4]));
  Add(alert.labels, "instance", HostName());
  Add(alert.labels, "ranks", Text(row[3]));
  Add(alert.labels, "pids", Text(row[1]));
  std::string place = Text(row[6]);
  if (row[7].is_string()) place += " (" + Text(row[7]) + (row[8].is_null() ? "" : ":" + row[8].dump()) + ")";
  Add(alert.labels, "line", place);
  std::array<char, 64> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.3f s", row[5].is_number() ? row[5].get<double>() : 0.0);
  Add(alert.annotations, "summary", std::string(seconds.data()) + ": " + Text(row[9]));
  Add(alert.annotations, "stack", Text(row[10]));
  Add(alert.annotations, "thread", Text(row[11]));
  Add(alert.annotations, "next",
      "probing -t " + Text(row[1]) +
          " query \"SELECT * FROM python.stalls ORDER BY timestamp DESC LIMIT 5\"");
  alert.begun_ns = row[0].is_number_integer() ? row[0].get<std::int64_t>() : 0;
  return alert;
}

std::string ForAlertmanager(const std::vector<Alert>& alerts, std::int64_t until_ns) {
  Json list = Json::array();
  for (const Alert& alert : alerts) {
    list.push_back({{"labels", ObjectOf(alert.labels)},
                    {"annotations", ObjectOf(alert.annotations)},
                    {"startsAt", TimeText(alert.begun_ns)},
                    {"endsAt", TimeText(alert.ended_ns != 0 ? alert.ended_ns : until_ns)}});
  }
  return list.dump();
}

std::string ForWebhook(const std::vector<Alert>& alerts) {
  Json list = Json::array();
  bool is_firing = false;
  for (const Alert& alert : alerts) {
    const bool lasts = alert.ended_ns == 0;
    is_firing = is_firing || lasts;
    list.push_back({{"status", lasts ? "firing" : "resolved"},
                    {"labels", ObjectOf(alert.labels)},
                    {"annotations", ObjectOf(alert.annotations)},
                    {"startsAt", TimeText(alert.begun_ns)},
                    {"endsAt", lasts ? std::string(kNever) : TimeText(alert.ended_ns)},
                    {"generatorURL", ""},
                    {"fingerprint", Fingerprint(alert)}});
  }
  const Json body{{"version", "4"},
                  {"groupKey", "{}:{service=\"probing\", instance=\"" + HostName() + "\"}"},
                  {"truncatedAlerts", 0},
                  {"status", is_firing ? "firing" : "resolved"},
                  {"receiver", "probing"},
                  {"groupLabels", {{"service", "probing"}}},
                  {"commonLabels", CommonOf(alerts, &Alert::labels)},
                  {"commonAnnotations", CommonOf(alerts, &Alert::annotations)},
                  {"externalURL", ""},
                  {"alerts", std::move(list)}};
  return server::JsonText(body);
}

outlet::otlp::LogRecord ForOtlp(const Alert& alert) {
  const bool has_ended = alert.ended_ns != 0;
  outlet::otlp::LogRecord record;
  record.time_ns = has_ended ? alert.ended_ns : alert.begun_ns;
  record.severity = has_ended ? "info" : alert.severity;
  record.body = (has_ended ? "resolved: " : "") + alert.Annotation("summary");
  const bool is_stall = alert.Label("alertname") == "stall";
  record.event_name = is_stall ? "probing.stall" : "probing.finding";
  for (const outlet::Texts* texts : {&alert.labels, &alert.annotations}) {
    for (const auto& [name, value] : *texts) {
      if (name == "summary" || name == "service" || name == "instance") continue;
      record.attributes.push_back({"probing." + (name == "alertname" ? std::string("class") : name), value});
    }
  }
  record.attributes.push_back({"probing.status", std::string(has_ended ? "resolved" : "firing")});
  return record;
}

std::string LineOf(const Alert& alert) {
  std::string line = alert.Label("alertname");
  for (const char* name : {"kind", "job", "ranks", "pids", "line"}) {
    const std::string value = alert.Label(name);
    if (!value.empty()) line += std::string(" ") + name + "=" + value;
  }
  if (alert.ended_ns != 0) return line + ": resolved";
  line += ": " + alert.Annotation("summary");
  const std::string next = alert.Annotation("next");
  return next.empty() ? line : line + "; next: " + next;
}

outlet::Texts JournalFields(const Alert& alert) {
  outlet::Texts fields{{"PROBING_STATUS", alert.ended_ns == 0 ? "firing" : "resolved"}};
  for (const auto& [name, value] : alert.labels) {
    std::string upper = "PROBING_";
    for (const char c : name == "alertname" ? std::string("class") : name)
      upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    fields.emplace_back(std::move(upper), value);
  }
  return fields;
}

}  // namespace probing::daemon
