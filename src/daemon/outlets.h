// Outlets: tells other systems by itself what is wrong here, as long as a setting says where.
//
// Every probing.outlets.interval seconds the jobs are diagnosed and python.stalls is read; what began, lasts
// or has ended goes to an Alertmanager or a webhook, to a collector of OpenTelemetry (with metrics and spans)
// and to the system's log. Without such a setting nothing of this runs. On the daemon's thread; what is sent
// waits in threads of outlet::Sender.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "outlet/alert_book.h"
#include "outlet/sender.h"
#include "outlet/system_log.h"
#include "wire/settings.h"

namespace probing::daemon {

struct Daemon;

struct OutletStatus {
  std::string name;
  std::string url;  // as it may be shown
  outlet::SenderStatus status;
  std::int64_t open = 0;  // alerts
};

class Outlets {
 public:
  Outlets(boost::asio::io_context& io, const wire::Settings& settings);

  // From now on. `daemon` outlives io.run().
  void Watch(Daemon& daemon);

  std::vector<OutletStatus> status() const;

 private:
  // Of a URL in the settings; made anew when they change.
  struct Http {
    std::string configured;
    std::string url;  // as it may be shown
    std::optional<outlet::Sender> sender;
  };

  boost::asio::awaitable<void> Run(Daemon& daemon);
  boost::asio::awaitable<void> Look(Daemon& daemon);
  boost::asio::awaitable<void> SeeFindings(Daemon& daemon);
  boost::asio::awaitable<void> SeeStalls(Daemon& daemon);
  boost::asio::awaitable<void> SendTelemetry(Daemon& daemon);
  bool Follow(const std::string& name, Http& http);
  void FollowSettings();
  void Tell();
  void TellWebhook(const std::vector<outlet::Alert>& due);
  void TellLog(const std::vector<outlet::Alert>& due);
  void Note(bool was_kept);

  boost::asio::io_context& io_;
  const wire::Settings& settings_;
  Http webhook_;
  Http otlp_;
  std::optional<outlet::SystemLog> log_;
  outlet::SenderStatus log_status_;
  outlet::AlertBook book_;
  std::uint64_t too_many_ = 0;        // alerts that the book had no room for
  std::int64_t since_ns_ = 0;         // wall time: older stalls are not told
  std::int64_t spans_until_ns_ = 0;   // wall time: those that ended before it were told
  std::uint64_t spans_left_out_ = 0;  // there were too many at once
  std::int64_t looked_ns_ = 0;        // monotonic
  std::int64_t all_told_ns_ = 0;      // monotonic: Alertmanager was told all that lasts
  std::set<std::tuple<std::int64_t, std::int64_t, std::string>> stalls_;  // that were seen: when, pid, kind
  std::string problem_;                                                   // of the last look, told once
};

}  // namespace probing::daemon
