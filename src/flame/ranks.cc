#include "flame/ranks.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"

namespace probing::flame {
namespace {

constexpr std::int64_t kMostRanks = 1'000'000;
constexpr pid_t kAboveAllPids = 1 << 22;  // PID_MAX_LIMIT of 64 bits

// Gives processes of several hosts numbers that no two have.
class Pids {
 public:
  pid_t UniqueOf(std::size_t part, pid_t pid) {
    const auto [known, is_new] = numbers_.try_emplace({part, pid}, pid);
    if (is_new && !taken_.insert(pid).second) taken_.insert(known->second = next_++);
    return known->second;
  }

 private:
  std::map<std::pair<std::size_t, pid_t>, pid_t> numbers_;
  std::set<pid_t> taken_;
  pid_t next_ = kAboveAllPids + 1;
};

}  // namespace

Ranks RanksIn(const Profile& profile) {
  Ranks ranks;
  for (const Thread& thread : profile.threads()) {
    if (thread.rank) ranks.insert(*thread.rank);
  }
  return ranks;
}

Result<Ranks> ParseRanks(std::string_view text) {
  const Error wrong{Code::kUsage, "\"" + std::string(text) + "\" are no ranks", "as in 3 or 0-2,4"};
  Ranks ranks;
  for (std::string_view rest = text; !rest.empty() || ranks.empty();) {
    std::string_view part = Trim(TakePart(rest, ','), " ");
    const bool is_range = part.find('-') != std::string_view::npos;
    const std::string_view begin = TakePart(part, '-');
    std::int64_t first = 0;
    if (!IsNumber(begin) || !ParseNumber(begin, first)) return wrong;
    std::int64_t last = first;
    if (is_range && (!IsNumber(part) || !ParseNumber(part, last))) return wrong;
    if (last < first || last > kMostRanks) return wrong;
    for (; first <= last; ++first) ranks.insert(first);
  }
  return ranks;
}

Profile Merge(const std::vector<Part>& parts, const Profile::Limits& limits) {
  Profile merged(parts.front().profile->period_ns(), limits);
  struct Place {
    std::int64_t start_ns;
    std::size_t part;
    std::size_t sample;
  };
  std::vector<Place> order;
  std::vector<std::vector<ThreadId>> threads(parts.size());
  Pids pids;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Profile& profile = *parts[i].profile;
    for (Thread thread : profile.threads()) {
      const pid_t pid = pids.UniqueOf(i, thread.pid);
      if (thread.tid == thread.pid) thread.tid = pid;  // the main thread is known by that
      thread.pid = pid;
      threads[i].push_back(merged.AddThread(std::move(thread)));
    }
    for (std::size_t j = 0; j < profile.samples().size(); ++j)
      order.push_back({profile.samples()[j].start_ns - parts[i].ahead_ns, i, j});
    merged.losses().torn += profile.losses().torn;
    merged.losses().unmerged += profile.losses().unmerged;
    merged.losses().dropped += profile.losses().dropped;
    merged.losses().spared += profile.losses().spared;
    merged.losses().missed += profile.losses().missed;
  }
  std::ranges::stable_sort(order, {}, &Place::start_ns);
  std::vector<Frame> frames;
  for (const Place& place : order) {
    const Profile& profile = *parts[place.part].profile;
    Sample sample = profile.samples()[place.sample];
    frames.clear();  // innermost first
    for (StackId at = sample.stack; at != kEmptyStack; at = profile.stacks()[at].caller)
      frames.push_back(profile.frames()[profile.stacks()[at].frame]);
    sample.start_ns = place.start_ns;
    sample.thread = threads[place.part][sample.thread];
    merged.AddSample(sample, frames);
  }
  return merged;
}

}  // namespace probing::flame
