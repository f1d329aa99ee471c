#include "flame/interval.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace probing::flame {

Profile Between(const Profile& whole, std::int64_t from_ns, std::int64_t to_ns) {
  const std::int64_t period_ns = whole.period_ns();
  Profile part(period_ns, {});
  part.losses() = whole.losses();
  std::map<ThreadId, ThreadId> threads;
  std::unordered_map<StackId, std::vector<Frame>> stacks;  // innermost first
  for (Sample sample : whole.samples()) {
    const std::int64_t begin_ns = std::max(sample.start_ns, from_ns);
    const std::int64_t end_ns = std::min(sample.start_ns + whole.DurationNs(sample), to_ns);
    const std::int64_t ticks = (end_ns - begin_ns + period_ns / 2) / period_ns;
    if (end_ns <= begin_ns || ticks == 0) continue;
    auto thread = threads.find(sample.thread);
    if (thread == threads.end())
      thread = threads.emplace(sample.thread, part.AddThread(whole.threads()[sample.thread])).first;
    const auto [stack, is_new] = stacks.try_emplace(sample.stack);
    if (is_new) {
      for (const FrameId frame : whole.FramesOf(sample.stack)) stack->second.push_back(whole.frames()[frame]);
      std::reverse(stack->second.begin(), stack->second.end());
    }
    part.Mark(whole.marks()[sample.mark]);
    sample.start_ns = begin_ns;
    sample.ticks = static_cast<std::uint32_t>(ticks);
    sample.thread = thread->second;
    part.AddSample(sample, stack->second);
  }
  return part;
}

}  // namespace probing::flame
