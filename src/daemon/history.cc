#include "daemon/history.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdlib>

#include "base/clock.h"
#include "daemon/host_name.h"
#include "daemon/log.h"
#include "table/history_files.h"
#include "wire/store_url.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

// A target that ends soon after it began is seen in time: it is kept for longer than this.
constexpr auto kLook = std::chrono::milliseconds(200);
constexpr std::int64_t kRestartNs = 2'000'000'000;

std::string DefaultDirectory() {
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/')
    return std::string(data) + "/probing";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.local/share/probing" : "/var/tmp/probing";
}

}  // namespace

History::History(asio::io_context& io, const Targets& targets, const wire::Settings& settings)
    : io_(io), targets_(targets), settings_(settings) {}

std::string History::DataDirectory() const {
  const std::string_view set = settings_.Get("probing.data_dir");
  return set.empty() ? DefaultDirectory() : std::string(set);
}

std::optional<std::string> History::directory() const {
  if (settings_.GetNumber("probing.retention_days") <= 0) return std::nullopt;
  return DataDirectory();
}

std::optional<std::string> History::store() const {
  const std::string_view set = settings_.Get("probing.store");
  return set == "none" ? std::nullopt : std::optional(wire::WithoutPassword(set));
}

void History::Watch() { asio::co_spawn(io_, Tick(), asio::detached); }

asio::awaitable<void> History::Tick() {
  while (true) {
    Update();
    asio::steady_timer timer(io_, kLook);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void History::Update() {
  if (!directory() && !store()) {
    process_.reset();  // it writes what it has, then ends
    status_ = {};
    return;
  }
  if (process_ == nullptr && MonotonicNs() < retry_ns_) return;
  if (const Result<void> updated = UpdateWorker(); !updated.ok()) {
    Log(LogLevel::kWarn, "history: " + updated.error().message);
    process_.reset();
    retry_ns_ = MonotonicNs() + kRestartNs;
  }
}

// Once for each that is new: what goes wrong goes wrong five times a second.
void History::LogNews(const history::StatusMessage& status) const {
  const auto warn = [](const std::string& problem, const std::string& before, const std::string& what) {
    if (problem != before && !problem.empty()) Log(LogLevel::kWarn, what + ": " + problem);
  };
  warn(status.problem, status_.problem, "history");
  warn(status.store_problem, status_.store_problem, "store");
  for (const history::StoreStatus& table : status.store) {
    const auto same = std::ranges::find(status_.store, table.table, &history::StoreStatus::table);
    const history::StoreStatus before = same == status_.store.end() ? history::StoreStatus{} : *same;
    warn(table.problem, before.problem, "store: " + table.table);
    if (table.dropped > 0 && before.dropped == 0)
      Log(LogLevel::kWarn, "store: there is no room for rows of " + table.table +
                               ", the oldest are dropped; probing.store counts them");
  }
}

Result<void> History::UpdateWorker() {
  if (process_ == nullptr) {
    ASSIGN_OR_RETURN(process_, history::HistoryProcess::Start("/proc/self/exe", {"--history-worker"}));
    told_.clear();
    Log(LogLevel::kInfo, "history is written to " + directory().value_or(*store()));
  }
  RETURN_IF_ERROR(process_->Receive());
  LogNews(process_->status());
  status_ = process_->status();

  history::StateMessage message;
  message.directory = directory().value_or("");
  message.host = HostName();
  message.retention_days = static_cast<std::int64_t>(settings_.GetNumber("probing.retention_days"));
  message.max_bytes = static_cast<std::int64_t>(settings_.GetNumber("probing.retention_bytes"));
  message.interval_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.history.interval") * 1000);
  if (store()) {
    message.store = settings_.Get("probing.store");
    message.spool = DataDirectory() + "/.store~" + table::EscapeName(message.host);
    message.spool_bytes = static_cast<std::int64_t>(settings_.GetNumber("probing.store.spool"));
    message.store_interval_ms =
        static_cast<std::int64_t>(settings_.GetNumber("probing.store.interval") * 1000);
  }
  std::vector<std::shared_ptr<const ScopedFd>> rings;
  std::vector<int> fds;
  for (const Target* target : targets_.Known()) {
    if (target->uid != geteuid()) continue;  // another user's rows do not fill our disk
    for (const auto& ring : target->ring_fds) {
      message.rings.push_back({target->pid, target->identity.rank, message.host, target->identity.job,
                               target->state == TargetState::kEnded});
      rings.push_back(ring);
      fds.push_back(ring->get());
    }
  }
  std::string encoded = Encode(message);
  if (encoded == told_ && rings == told_rings_) return {};
  RETURN_IF_ERROR(process_->Send(message, fds));
  told_ = std::move(encoded);
  told_rings_ = std::move(rings);
  return {};
}

}  // namespace probing::daemon
