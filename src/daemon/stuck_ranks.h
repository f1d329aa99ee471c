// Which rank keeps the others of its job waiting, seen from outside: Python stacks and the kernel's counters.
//
// Needs no probe, so that it works before a process group exists (a rank that never comes to the rendezvous),
// for sends and receives that torch does not record, and while a rank holds the GIL. All ranks of this host
// are looked at several times. A rank waits when its main thread sleeps in torch's communication code and
// does not wake up in between; a rank that stays in one function elsewhere meanwhile is the one the others
// wait for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "process/job_identity.h"

namespace probing::daemon {

// The main thread of one rank at one moment.
struct RankLook {
  pid_t pid = 0;
  std::int64_t rank = 0;
  std::string job;
  bool waits = false;    // sleeps in torch's communication code
  bool is_busy = false;  // computes in torch's own code
  bool is_meeting =
      false;  // waits for the others to come to the process group; stores are asked again and again
  bool has_gil = false;
  std::string function;     // the innermost one, with its file; "" when it could not be read
  std::string place;        // the innermost frame of the user's own code, and what it is below
  std::uint64_t wakes = 0;  // voluntary context switches so far
};
using RankLooks = std::vector<RankLook>;

// May take a few milliseconds for each rank; not for the daemon's own thread.
RankLooks LookAtRanks(const std::vector<process::RankProcess>& ranks);

struct StuckRanks {
  std::string job;
  std::vector<std::int64_t> ranks;  // that others wait for
  std::vector<std::int64_t> pids;   // theirs, in the same order
  std::string evidence;
};

// What all of the looks, taken within so many seconds, have in common. Empty when nothing is stuck.
std::vector<StuckRanks> FindStuckRanks(const std::vector<RankLooks>& looks, double seconds);

}  // namespace probing::daemon
