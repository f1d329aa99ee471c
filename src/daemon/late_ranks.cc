#include "daemon/late_ranks.h"

#include <algorithm>

namespace probing::daemon {
namespace {

constexpr std::size_t kMostMeetings = 10'000;
constexpr std::int64_t kPatienceNs = 2'000'000'000;

}  // namespace

void LateRanks::Add(const Arrival& arrival, std::int64_t now_ns) {
  const std::tuple key(arrival.job, arrival.group, arrival.seq);
  auto found = meetings_.find(key);
  if (found == meetings_.end()) {
    if (meetings_.size() >= kMostMeetings) return;
    found = meetings_.emplace(key, Meeting{{}, arrival, arrival.at_ns, now_ns}).first;
  }
  Meeting& meeting = found->second;
  meeting.came.try_emplace(arrival.who, arrival.at_ns);
  meeting.first_ns = std::min(meeting.first_ns, arrival.at_ns);
  if (arrival.at_ns > meeting.last.at_ns) meeting.last = arrival;
  meeting.told_ns = now_ns;
}

std::vector<LateRanks::Late> LateRanks::Take(std::int64_t now_ns, std::int64_t limit_ns) {
  std::vector<Late> late;
  for (auto entry = meetings_.begin(); entry != meetings_.end();) {
    const Meeting& meeting = entry->second;
    const bool is_complete = meeting.came.size() == meeting.last.members;
    if (!is_complete && now_ns - meeting.told_ns < kPatienceNs) {
      ++entry;
      continue;
    }
    const std::int64_t lateness_ns = meeting.last.at_ns - meeting.first_ns;
    if (meeting.came.size() > 1 && lateness_ns > limit_ns) {
      const Arrival& last = meeting.last;
      late.push_back({last.who, meeting.first_ns, last.at_ns,
                      last.rank + " came to " + last.op + " " + std::to_string(last.seq) + " of group " +
                          last.group + " " + std::to_string(lateness_ns / 1'000'000) +
                          " ms after the first of " + std::to_string(meeting.came.size()) + " ranks"});
    }
    entry = meetings_.erase(entry);
  }
  return late;
}

}  // namespace probing::daemon
