// LateRanks: which rank came last to a collective, so that the others had to wait for it.
//
// Of the ranks of a job on this host, from what their rings say (python.collectives). One meeting is one
// number of one group; it is looked at when all members have been seen, or none has come for two seconds
// (rows are written when a collective is over). Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace probing::daemon {

class LateRanks {
 public:
  using Identity = std::pair<pid_t, std::uint64_t>;  // pid and when it started
  struct Arrival {
    std::string job, group, op;
    std::int64_t seq = 0;
    std::size_t members = 0;  // of the group; 0 when it is not known
    std::int64_t at_ns = 0;   // wall time
    Identity who;
    std::string rank;  // "rank 3", for people
  };
  // Between `first_ns` and `last_ns` (wall time) the others waited for it.
  struct Late {
    Identity who;
    std::int64_t first_ns = 0, last_ns = 0;
    std::string why;
  };

  void Add(const Arrival& arrival, std::int64_t now_ns);

  // Those that came more than `limit_ns` after the first one; each meeting is told once.
  std::vector<Late> Take(std::int64_t now_ns, std::int64_t limit_ns);

 private:
  struct Meeting {
    std::map<Identity, std::int64_t> came;
    Arrival last;
    std::int64_t first_ns = 0;
    std::int64_t told_ns = 0;  // when the last row of it was read (monotonic)
  };
  std::map<std::tuple<std::string, std::string, std::int64_t>, Meeting> meetings_;
};

}  // namespace probing::daemon
