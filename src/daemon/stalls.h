// Stalls: what took too long in every target, as rows of python.stalls.
//
// Two ways lead here. A StallThread per target looks from outside and finds event loops that do not turn and
// a GIL that is kept. What targets record by themselves is followed as it comes: steps, spans with a limit,
// exceptions, metrics, events (StallEvents), and who came late to a collective (LateRanks); what the threads
// did meanwhile is asked of the StallThread. Runs on the daemon's thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/late_ranks.h"
#include "daemon/series.h"
#include "daemon/stall_events.h"
#include "daemon/stall_thread.h"
#include "daemon/targets.h"
#include "observe/host/series_table.h"
#include "observe/stalls/row_budget.h"
#include "wire/settings.h"

namespace probing::daemon {

class Stalls {
 public:
  Stalls(boost::asio::io_context& io, Targets& targets, Series& series, const wire::Settings& settings);

  // From now on.
  void Watch();

  // Something somebody else has noticed: keeps what the target did before and during it, and looks closely
  // for a moment. kNotFound: nothing is known about this process.
  Result<void> Add(pid_t pid, observe::Stall stall);

 private:
  using Identity = std::pair<pid_t, std::uint64_t>;  // pid and when it started
  struct Watched {
    std::optional<StallThread> thread;
    std::optional<StallEvents> events;   // since it is watched
    std::shared_ptr<ring::Arena> arena;  // of Series, which may take another one when a probe comes anew
    std::optional<observe::SeriesTable> table;  // in it
    double limit = 0;                           // of the thread
    observe::RowBudget rows;                    // of what the target tells
  };

  boost::asio::awaitable<void> Tick();
  void FollowTargets();
  void AddLateRanks();
  void Collect(const Identity& identity, const Target& target, Watched& watched);
  // As many as the budget allows.
  void WriteWithin(const Identity& identity, Watched& watched, observe::Stall stall);
  void Write(const Identity& identity, Watched& watched, const observe::Stall& stall);

  boost::asio::io_context& io_;
  Targets& targets_;
  Series& series_;
  const wire::Settings& settings_;
  std::map<Identity, Watched> watched_;
  LateRanks late_ranks_;
};

}  // namespace probing::daemon
