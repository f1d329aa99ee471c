#include "daemon/history.h"

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

std::optional<std::string> History::directory() const {
  if (settings_.GetNumber("probing.retention_days") <= 0) return std::nullopt;
  const std::string_view set = settings_.Get("probing.data_dir");
  return set.empty() ? DefaultDirectory() : std::string(set);
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
  const std::optional<std::string> where = directory();
  if (!where) {
    process_.reset();  // it writes what it has, then ends
    status_ = {};
    return;
  }
  if (process_ == nullptr && MonotonicNs() < retry_ns_) return;
  if (const Result<void> updated = UpdateWorker(*where); !updated.ok()) {
    Log(LogLevel::kWarn, "history: " + updated.error().message);
    process_.reset();
    retry_ns_ = MonotonicNs() + kRestartNs;
  }
}

Result<void> History::UpdateWorker(const std::string& directory) {
  if (process_ == nullptr) {
    ASSIGN_OR_RETURN(process_, history::HistoryProcess::Start("/proc/self/exe", {"--history-worker"}));
    told_.clear();
    Log(LogLevel::kInfo, "history is written to " + directory);
  }
  RETURN_IF_ERROR(process_->Receive());
  if (status_.problem != process_->status().problem && !process_->status().problem.empty())
    Log(LogLevel::kWarn, "history: " + process_->status().problem);
  status_ = process_->status();

  history::StateMessage message;
  message.directory = directory;
  message.host = HostName();
  message.retention_days = static_cast<std::int64_t>(settings_.GetNumber("probing.retention_days"));
  message.max_bytes = static_cast<std::int64_t>(settings_.GetNumber("probing.retention_bytes"));
  message.interval_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.history.interval") * 1000);
  std::vector<std::shared_ptr<const ScopedFd>> rings;
  std::vector<int> fds;
  for (const Target* target : targets_.Known()) {
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
