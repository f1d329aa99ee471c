// Sampling in probingd: targets that are sampled all the time, and recordings somebody asked for.
//
// A probed target is sampled ten times a second, unless probing.sample_rate says otherwise: by
// `probing -t PID config`, or by PROBING_SAMPLE_RATE or PROBE_PPROF in the environment it was started
// with. Recent samples are kept in bounded memory, for a while also after the end of the target.
// A process without a probe can be sampled, too, when it is asked for. Runs on the daemon's thread; the
// samplers have their own.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/bursts.h"
#include "daemon/sampler_thread.h"
#include "daemon/targets.h"
#include "server/router.h"
#include "wire/settings.h"

namespace probing::daemon {

inline constexpr std::string_view kSampleRate = "probing.sample_rate";
inline constexpr std::string_view kSampleNative = "probing.sample_native";
inline constexpr std::string_view kSampleMemory = "probing.sample_memory";

class Sampling {
 public:
  Sampling(boost::asio::io_context& io, Targets& targets, const wire::Settings& settings)
      : io_(io), targets_(targets), bursts_(io), settings_(settings) {}

  // Seconds between samples; 0 ends it and forgets what was sampled.
  boost::asio::awaitable<Result<void>> SetRate(pid_t pid, double seconds);
  // As the setting shows it.
  std::string Rate(pid_t pid) const;

  // Whether native frames are sampled, too. What was sampled without them is forgotten.
  boost::asio::awaitable<Result<void>> SetNative(pid_t pid, bool native);
  bool Native(pid_t pid) const { return native_.contains(pid); }

  // The door for events: a closer look at one target, now, whether or not it is sampled all the time.
  // Returns when it has begun; the samples carry the reason as their mark (Bursts). For callers on
  // the daemon's thread; others post to it.
  boost::asio::awaitable<Result<void>> Trigger(pid_t pid, const observe::Trigger& trigger);

  // Records as the request says (seconds, hz, native, subprocesses, reason, start_ns, seed) and shows what
  // came of it. REQUIRES: at least one root.
  boost::asio::awaitable<Result<void>> RecordThen(std::vector<observe::Root> roots,
                                                  const server::Json& request,
                                                  std::function<void(const observe::Recorder&)> look);

  // POST /api/v1/profile and GET /api/v1/samples.
  boost::asio::awaitable<Result<server::Json>> Record(std::vector<observe::Root> roots,
                                                      const server::Json& request);
  Result<server::Json> Samples(pid_t pid) const;

  // Shows what was sampled of a target so far; does nothing when it is not sampled.
  void Look(pid_t pid, const std::function<void(const flame::Profile&)>& look) const;

  // From now on: starts with new targets, ends when the probe leaves, forgets what ended.
  void Watch();

  // Samplers under way: a reason for the daemon to stay.
  std::size_t running() const;

 private:
  struct Continuous {
    SamplerThread sampler;
    std::string rate;
    double seconds = 0;         // the rate as a number
    bool with_probe = false;    // begun because there is a probe, ends when that leaves
    std::int64_t ended_ns = 0;  // 0: it runs
  };

  observe::SamplerOptions SamplerOptionsOf(bool native) const;
  boost::asio::awaitable<void> LookAtTargets();
  boost::asio::awaitable<Result<void>> Run(pid_t pid, double seconds, bool with_probe);
  // True when there is nothing more to try: it runs, or somebody has chosen otherwise.
  boost::asio::awaitable<bool> Begin(pid_t pid, bool may_request);
  void ForgetEnded();

  boost::asio::io_context& io_;
  Targets& targets_;
  // Shared with the samplers, which are on other threads and may outlive this for a moment.
  std::shared_ptr<unwind::SymbolStore> symbols_ = std::make_shared<unwind::SymbolStore>();
  Bursts bursts_;
  std::set<pid_t> native_;
  std::set<pid_t> chosen_;  // by SetRate, against which nothing starts by itself
  std::map<pid_t, Continuous> continuous_;
  std::map<std::pair<pid_t, std::uint64_t>, int> tries_left_;  // by pid and when it started
  const wire::Settings& settings_;
};

}  // namespace probing::daemon
