// A part of a profile, by time.
#pragma once

#include "flame/profile.h"

namespace probing::flame {

// What happened from one moment of the monotonic clock to another: samples that cross either are cut there.
// Losses are those of the whole.
Profile Between(const Profile& whole, std::int64_t from_ns, std::int64_t to_ns);

}  // namespace probing::flame
