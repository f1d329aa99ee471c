// Bursts: short recordings that events ask for, the last few of each target.
//
// A burst is a recording of its own, beside the samples that are taken all the time: those keep their
// rate, so that their shares stay right, and a burst is at most some milliseconds late (the process is
// attached to first). While one is under way for a target, further triggers for it are counted and
// do nothing: an event that happens all the time must not make sampling permanent.
// Runs on the daemon's thread; the samplers have their own.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <map>
#include <string>

#include "daemon/sampler_thread.h"
#include "server/router.h"

namespace probing::daemon {

inline constexpr std::size_t kMaxReasonBytes = 200;

class Bursts {
 public:
  static constexpr std::size_t kKept = 8;  // per target
  static constexpr std::int64_t kMaxDurationMs = 60'000;

  explicit Bursts(boost::asio::io_context& io) : io_(io) {}

  // Until it has begun. kUsage: no sensible rate or duration. Others: as the process says.
  boost::asio::awaitable<Result<void>> Start(pid_t pid, observe::Trigger trigger,
                                             const observe::SamplerOptions& sampler);

  // Oldest first: [{reason, running, ignored, period_ns, samples_taken, lost, folded}].
  server::Json ToJson(pid_t pid) const;

  void ForgetOld(std::int64_t age_ns);
  std::size_t running() const;

 private:
  struct Burst {
    SamplerThread sampler;
    std::string reason;
    std::int64_t started_ns = 0;
    std::uint64_t ignored = 0;  // triggers that came while it was under way
  };

  boost::asio::io_context& io_;
  std::map<pid_t, std::deque<Burst>> bursts_;
};

}  // namespace probing::daemon
