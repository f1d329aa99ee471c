// Asks a probingd who it is.
#pragma once

#include <string>

#include "base/clock.h"
#include "cluster/members.h"

namespace probing::cluster {

// The member as it is now: who it is, what time it has, whom it knows; or why it did not say. `own` is where
// we can be asked, "" for nowhere.
Member Greet(Member member, const std::string& own, const std::string& token, const Deadline& deadline);

}  // namespace probing::cluster
