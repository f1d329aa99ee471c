#include "daemon/outlets.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "base/clock.h"
#include "daemon/alerts.h"
#include "daemon/api.h"
#include "daemon/diagnosis.h"
#include "daemon/log.h"
#include "daemon/telemetry.h"
#include "wire/outlet_url.h"

namespace probing::daemon {
namespace asio = boost::asio;
using outlet::Alert;
using server::Json;

namespace {

constexpr auto kTick = std::chrono::milliseconds(500);
constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kStallOpenNs = 300 * kSecondNs;    // how long a stall is an alert
constexpr std::int64_t kStallWindowNs = 900 * kSecondNs;  // as in StallSql()
constexpr std::int64_t kTellAllNs = 60 * kSecondNs;       // as often as Prometheus tells an Alertmanager
constexpr std::int64_t kSettleNs = kSecondNs;  // rows are in their ring that long after they happened
constexpr std::size_t kMostInMessage = 100;
constexpr std::size_t kMostLines = 50;  // of the system's log, in one look

bool IsAlertmanager(const std::string& url) { return url.ends_with("/api/v2/alerts"); }

}  // namespace

Outlets::Outlets(asio::io_context& io, const wire::Settings& settings) : io_(io), settings_(settings) {}

void Outlets::Watch(Daemon& daemon) { asio::co_spawn(io_, Run(daemon), asio::detached); }

std::vector<OutletStatus> Outlets::status() const {
  std::vector<OutletStatus> list;
  const auto open = static_cast<std::int64_t>(book_.size());
  if (webhook_.sender) list.push_back({"webhook", webhook_.url, webhook_.sender->status(), open});
  if (otlp_.sender) {
    list.push_back({"otlp", otlp_.url, otlp_.sender->status(), open});
    list.back().status.dropped += spans_left_out_;
  }
  if (log_) list.push_back({"syslog", log_->place(), log_status_, open});
  for (OutletStatus& each : list) each.status.dropped += too_many_;
  return list;
}

asio::awaitable<void> Outlets::Run(Daemon& daemon) {
  while (true) {
    FollowSettings();
    const bool has_outlet = webhook_.sender || otlp_.sender || log_;
    const auto interval_ns =
        static_cast<std::int64_t>(settings_.GetNumber("probing.outlets.interval") * kSecondNs);
    const bool has_work = !daemon.targets.Known().empty() || book_.size() > 0;
    if (has_outlet && has_work && MonotonicNs() - looked_ns_ >= interval_ns) {
      looked_ns_ = MonotonicNs();
      try {
        co_await Look(daemon);
      } catch (const std::exception& e) {
        Log(LogLevel::kError, std::string("outlets: ") + e.what());
      }
    }
    asio::steady_timer timer(io_, kTick);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

// True when it was made anew.
bool Outlets::Follow(const std::string& name, Http& http) {
  const std::string setting = "probing.outlets." + name;
  const std::string url_text(settings_.Get(setting));
  const std::string headers(settings_.Get(setting + "_headers"));
  const std::string authority(settings_.Get("probing.outlets.authority"));
  std::string configured = url_text == "none" ? "" : url_text + "\n" + headers + "\n" + authority;
  if (configured == http.configured) return false;
  http.configured = std::move(configured);
  http.sender.reset();
  http.url.clear();
  const Result<wire::OutletUrl> url = wire::ParseOutletUrl(url_text);
  if (http.configured.empty() || !url.ok()) return false;
  outlet::Destination to{.url = *url, .headers = {}, .authority_file = authority};
  if (headers != "none") {
    Result<wire::HeaderList> list = wire::ParseHeaders(headers);
    if (list.ok()) to.headers = std::move(*list);
  }
  http.url = url->ToText();
  http.sender.emplace(std::move(to));
  Log(LogLevel::kInfo, setting + ": findings are told to " + http.url);
  return true;
}

void Outlets::FollowSettings() {
  bool is_new = Follow("webhook", webhook_);
  is_new = Follow("otlp", otlp_) || is_new;
  const std::string_view log = settings_.Get("probing.outlets.syslog");
  if (log == "none") {
    log_.reset();
  } else if (!log_ || log_->place() != log) {
    log_.emplace(log);
    log_status_ = {};
    is_new = true;
  }
  if (!is_new) return;
  // A new outlet is told what lasts, and not what was before it.
  book_ = {};
  since_ns_ = spans_until_ns_ = WallNs();
  stalls_.clear();
  looked_ns_ = all_told_ns_ = 0;
}

asio::awaitable<void> Outlets::Look(Daemon& daemon) {
  co_await SeeStalls(daemon);
  co_await SeeFindings(daemon);
  Tell();
  if (otlp_.sender) co_await SendTelemetry(daemon);
}

void Outlets::Note(bool was_kept) {
  if (!was_kept) ++too_many_;
}

asio::awaitable<void> Outlets::SeeFindings(Daemon& daemon) {
  const server::Request request;
  const Result<Json> diagnosis = co_await Diagnose(daemon, request);
  const std::string problem = diagnosis.ok() ? "" : diagnosis.error().message;
  if (!problem.empty() && problem != problem_) Log(LogLevel::kWarn, "outlets: no diagnosis: " + problem);
  problem_ = problem;
  if (!diagnosis.ok()) co_return;  // what was not looked at has not ended
  for (const Json& finding : (*diagnosis)["findings"]) Note(book_.See(AlertOfFinding(finding), WallNs()));
  book_.EndUnseen();
}

asio::awaitable<void> Outlets::SeeStalls(Daemon& daemon) {
  const Result<Json> answer = co_await QueryRows(daemon, StallSql(since_ns_));
  if (!answer.ok()) co_return;
  const std::int64_t now_ns = WallNs();
  for (const Json& row : (*answer)["rows"]) {
    if (!row[0].is_number_integer() || !row[1].is_number_integer()) continue;
    const auto at_ns = row[0].get<std::int64_t>();
    const std::string kind = row[2].is_string() ? row[2].get<std::string>() : "";
    if (!stalls_.emplace(at_ns, row[1].get<std::int64_t>(), kind).second) continue;
    Note(book_.SeeUntil(AlertOfStall(row), now_ns, now_ns + kStallOpenNs));
  }
  while (!stalls_.empty() && std::get<0>(*stalls_.begin()) < now_ns - 2 * kStallWindowNs)
    stalls_.erase(stalls_.begin());
}

void Outlets::Tell() {
  const auto repeat_ns = static_cast<std::int64_t>(settings_.GetNumber("probing.outlets.repeat") * kSecondNs);
  const std::vector<Alert> due = book_.Due(WallNs(), repeat_ns);
  TellWebhook(due);
  if (log_) TellLog(due);
  if (!otlp_.sender || due.empty()) return;
  outlet::otlp::About<outlet::otlp::LogRecord> group{.resource = OwnResource(), .items = {}};
  for (const Alert& alert : due) group.items.push_back(ForOtlp(alert));
  const std::size_t count = group.items.size();
  otlp_.sender->Send({.path = outlet::otlp::kLogsPath,
                      .content_type = outlet::otlp::kContentType,
                      .body = outlet::otlp::Encode(std::vector{std::move(group)}),
                      .items = count});
}

void Outlets::TellWebhook(const std::vector<Alert>& due) {
  if (!webhook_.sender) return;
  const bool is_manager = IsAlertmanager(webhook_.url);
  std::vector<Alert> all = due;
  const auto interval_ns =
      static_cast<std::int64_t>(settings_.GetNumber("probing.outlets.interval") * kSecondNs);
  // An Alertmanager forgets what it is not told again, and sends one message for many of those itself.
  if (is_manager && MonotonicNs() - all_told_ns_ >= kTellAllNs) {
    all_told_ns_ = MonotonicNs();
    const auto is_told = [&](const Alert& open) {
      return std::ranges::any_of(due, [&](const Alert& alert) { return alert.labels == open.labels; });
    };
    for (const Alert& open : book_.Open()) {
      if (!is_told(open)) all.push_back(open);
    }
  }
  for (std::size_t begin = 0; begin < all.size(); begin += kMostInMessage) {
    const std::size_t count = std::min(kMostInMessage, all.size() - begin);
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<Alert> some(from, from + static_cast<std::ptrdiff_t>(count));
    const std::int64_t until_ns = WallNs() + 4 * std::max(kTellAllNs, interval_ns);
    webhook_.sender->Send({.path = "",
                           .content_type = "application/json",
                           .body = is_manager ? ForAlertmanager(some, until_ns) : ForWebhook(some),
                           .items = count});
  }
}

void Outlets::TellLog(const std::vector<Alert>& due) {
  std::size_t lines = 0;
  for (const Alert& alert : due) {
    if (++lines > kMostLines) {
      ++log_status_.dropped;
      continue;
    }
    const std::string severity = alert.ended_ns == 0 ? alert.severity : "info";
    const Result<void> written = log_->Write(severity, LineOf(alert), JournalFields(alert));
    if (written.ok()) {
      ++log_status_.sent;
      log_status_.sent_ns = WallNs();
      continue;
    }
    ++log_status_.failed;
    ++log_status_.dropped;
    log_status_.problem = written.error().message;
    log_status_.problem_ns = WallNs();
  }
}

asio::awaitable<void> Outlets::SendTelemetry(Daemon& daemon) {
  if (daemon.targets.live() > 0) {
    const auto metrics = co_await MetricsForOtlp(daemon);
    if (metrics.ok() && !metrics->empty() && otlp_.sender) {
      std::uint64_t count = 0;
      for (const auto& group : *metrics) count += group.items.size();
      otlp_.sender->Send({.path = outlet::otlp::kMetricsPath,
                          .content_type = outlet::otlp::kContentType,
                          .body = outlet::otlp::Encode(*metrics),
                          .items = count});
    }
  }
  const std::int64_t until_ns = WallNs() - kSettleNs;
  if (until_ns <= spans_until_ns_) co_return;
  const Result<SpansForOtlp> spans = co_await SpansOf(daemon, spans_until_ns_, until_ns);
  if (!spans.ok()) co_return;  // the next window begins where this one did
  spans_until_ns_ = until_ns;
  spans_left_out_ += spans->left_out;
  if (spans->count == 0 || !otlp_.sender) co_return;
  otlp_.sender->Send({.path = outlet::otlp::kTracesPath,
                      .content_type = outlet::otlp::kContentType,
                      .body = outlet::otlp::Encode(spans->groups),
                      .items = spans->count});
}

}  // namespace probing::daemon
