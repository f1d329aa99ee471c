// What probingd writes about every target by itself: the system.* tables, and how it ended.
//
// Each target has a memory file of its own for that, beside the one of its probe, which is kept as
// long as the target is listed. Runs on the daemon's thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/targets.h"
#include "observe/host/exit_watcher.h"
#include "observe/host/host_series.h"
#include "observe/host/proc_connector.h"
#include "observe/stacks/last_stacks.h"
#include "ring/arena.h"
#include "wire/settings.h"

namespace probing::daemon {

class Series {
 public:
  Series(boost::asio::io_context& io, Targets& targets, const wire::Settings& settings);

  // From now on.
  void Watch();

  // Where more can be written about a target; null when nothing is written about it (any more). Another
  // one when its probe was taken out and put in again. For the daemon's thread.
  std::shared_ptr<ring::Arena> ArenaOf(pid_t pid, std::uint64_t start_ticks);

 private:
  using Identity = std::pair<pid_t, std::uint64_t>;  // pid and when it started
  struct About {
    std::unique_ptr<ring::Arena> arena;
    std::optional<observe::ExitWatcher> exit;
    std::optional<observe::LastStacks> stacks;
    std::optional<boost::asio::posix::stream_descriptor> end;  // readable then
    bool ended = false;
    bool forgotten = false;  // the target was left: how it ends is nobody's business any more
    std::string name;
    std::string command;
    std::int64_t started_ns = 0;
  };

  boost::asio::awaitable<void> Tick();
  // Waits for the end of a process and writes down how it was.
  boost::asio::awaitable<void> AwaitEnd(std::shared_ptr<About> about, Identity identity);
  void WriteEnd(About& about, const Identity& identity, const observe::HowItEnded& how);
  void LookForTargets();
  static void Forget(About& about);
  Result<void> Begin(const Target& target);
  // Lets queries about the target read the arena.
  Result<void> Show(const Target& target, const ring::Arena& arena);

  boost::asio::io_context& io_;
  Targets& targets_;
  const wire::Settings& settings_;
  observe::HostSeries host_;
  std::optional<observe::ProcConnector> connector_;
  std::map<Identity, std::shared_ptr<About>> known_;
};

}  // namespace probing::daemon
