// Ranks of a job in profiles: which are meant, and profiles of several hosts as one.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "flame/profile.h"

namespace probing::flame {

using Ranks = std::set<std::int64_t>;

// Those of its threads.
Ranks RanksIn(const Profile& profile);

// "3", "0-2,4". kUsage for anything else.
Result<Ranks> ParseRanks(std::string_view text);

// What was recorded on one host; its times are on a clock that is `ahead_ns` ahead of the result's.
struct Part {
  const Profile* profile = nullptr;
  std::int64_t ahead_ns = 0;
};

// All of them, in the order of time. Where processes of two hosts have the same pid, one gets a number above
// those of the kernel, so that no reader takes them for one.
// REQUIRES: at least one, all of the same period.
Profile Merge(const std::vector<Part>& parts, const Profile::Limits& limits);

}  // namespace probing::flame
