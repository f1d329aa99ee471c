// The probed processes probingd knows.
//
// One connection is held to each, so that its end is noticed at once; an ended target stays
// in the list, with what it left, for probing.keep_ended. Runs on the daemon's one thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "daemon/probe_link.h"
#include "process/job_identity.h"
#include "wire/settings.h"

namespace probing::daemon {

enum class TargetState : std::uint8_t {
  kSilent,   // connected, but it has not said hello yet
  kLive,     // answers
  kClosing,  // closed its connection: about to be kEnded, or forgotten if the process lives on
  kEnded,    // the process is gone
};
const char* TargetStateName(TargetState state);

struct Target {
  pid_t pid = 0;
  uid_t uid = 0;
  // Its environment may ask for something: it is this daemon's user's, and lives in the same namespaces.
  bool may_request = false;
  // Its program begins when a client has come: PROBE_BG=0.
  bool waits_for_client = false;
  TargetState state = TargetState::kSilent;
  std::string user;
  std::string name;  // comm
  std::string command;
  std::string version;            // of the probe
  std::string python;             // "" while the process has none
  std::string how;                // injected, preload, import
  process::JobIdentity identity;  // as its launcher says: job, rank, …
  std::int64_t started_ns = 0;
  std::uint64_t start_ticks = 0;
  std::chrono::steady_clock::time_point attached = std::chrono::steady_clock::now();
  ProbeLink link;
  // Memory files with its rows: the probe's own, and the one this daemon writes about it. They
  // outlive the target.
  std::vector<std::shared_ptr<const ScopedFd>> ring_fds;
  // When the probe was asked last to bring python.collectives up to date.
  std::chrono::steady_clock::time_point collectives_read;
  bool has_series = false;                                            // this daemon's is among them
  std::deque<std::vector<std::shared_ptr<const ScopedFd>>> profiles;  // which of them are of which profile
  ScopedFd trace;                                                     // of the newest
};
inline constexpr std::size_t kMostProfiles = 10;

class Targets {
 public:
  // `settings` outlives this.
  // `threads` are for what would hold up the daemon's own.
  Targets(boost::asio::io_context& io, boost::asio::thread_pool& threads, const wire::Settings& settings);

  // Starts watching one process, because a caller named it; does nothing if that is done already. As root it
  // may be any user's. Never waits.
  Result<void> Attach(pid_t pid);

  // Looks for sockets nobody attached to yet and waits a moment for them to say hello. A quick look is one
  // into the user's own directories; it also waits for one everywhere when the last was long ago.
  enum class Look : std::uint8_t { kEverywhere, kQuick };
  boost::asio::awaitable<void> Refresh(Look look = Look::kEverywhere);

  // Has the probes read torch's Flight Recorder, so that their rings have every collective up to now; of one
  // target, or of all. Waits a moment for them; one that does not answer keeps nobody waiting for longer.
  boost::asio::awaitable<void> ReadCollectives(std::optional<pid_t> pid);

  // The value of a setting of the probe in this target; "" when it does not answer in time.
  boost::asio::awaitable<std::string> SettingOf(pid_t pid, std::string name,
                                                std::chrono::milliseconds timeout);

  // A user asks about this process: a program that waits for its first client (PROBE_BG=0) begins. Returns
  // when it has, or after some seconds; at once for all others.
  boost::asio::awaitable<void> OnClient(pid_t pid);
  // No client can come to the address that this process was started with.
  boost::asio::awaitable<void> OnNotServed(pid_t pid, std::string reason);

  // Follows the user's own socket directories from now on.
  void Watch();

  // Called whenever a target has said hello and its rings are here.
  void OnHello(std::function<void()> callback) { on_hello_.push_back(std::move(callback)); }

  // Another memory file with rows about this target, if it is still the one that was meant.
  void AddRing(pid_t pid, std::uint64_t start_ticks, ScopedFd fd);

  // The same for the rows of a profile of a target, or of a snapshot of its GPUs' memory; those of the oldest
  // go when there are more than kMostProfiles. `trace` is the file that it was made of, of which the newest
  // is kept.
  void AddProfile(pid_t pid, std::vector<std::shared_ptr<const ScopedFd>> rings, ScopedFd trace);

  // The probe was asked to leave: the target is no longer ours to list.
  void Forget(pid_t pid);

  // Those to be shown, by pid.
  std::vector<const Target*> Shown() const;
  // All there is to know something about: also those of which it is not known yet whether they end.
  std::vector<const Target*> Known() const;
  std::size_t live() const;
  bool Knows(pid_t pid) const;
  // Whether `pid` was a target which has ended.
  bool HasEnded(pid_t pid) const;

 private:
  // Shared by the table and the coroutines that wait for this target.
  using TargetPtr = std::shared_ptr<Target>;

  void AttachTo(const std::string& socket_path);
  boost::asio::awaitable<void> LookEverywhere();
  void ReadTitles();
  boost::asio::awaitable<void> Greet(TargetPtr target);
  boost::asio::awaitable<void> LearnRank(TargetPtr target);
  boost::asio::awaitable<void> ReadCollectivesOf(TargetPtr target, std::shared_ptr<std::size_t> waiting);
  boost::asio::awaitable<void> Bury(TargetPtr target);
  boost::asio::awaitable<void> FollowDirectories();

  boost::asio::io_context& io_;
  boost::asio::thread_pool& threads_;
  const wire::Settings& settings_;
  std::vector<std::function<void()>> on_hello_;
  std::map<pid_t, TargetPtr> targets_;
  std::map<std::string, pid_t> pid_by_path_;  // so that a known probe is not woken by every look
  std::chrono::steady_clock::time_point looked_everywhere_;
};

}  // namespace probing::daemon
