// Samples of a process on another machine, taken by the probingd there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "flame/profile.h"

namespace probing::cli {

struct RemoteProfile {
  flame::Profile profile;  // times are from its start
  std::uint64_t samples_taken = 0;
  bool ended = false;           // there are no more
  std::int64_t started_ns = 0;  // wall time there
  struct Gone {
    pid_t pid = 0;
    std::optional<double> after_s{};  // nothing: it was never sampled
    std::string why;
  };
  std::vector<Gone> gone{};  // of several
};

// Takes that long. The options are those of `record`: --native, --subprocesses.
Result<RemoteProfile> TakeRemoteProfile(const Invocation& invocation, double seconds, double hz);

// The answer of POST profile. kFailed when it is none.
Result<RemoteProfile> ProfileFromJson(const Json& answer);

}  // namespace probing::cli
