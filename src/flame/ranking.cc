#include "flame/ranking.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

namespace probing::flame {
namespace {

using Function = std::tuple<std::string_view, std::string_view, int>;

struct Ticks {
  std::uint64_t own = 0;
  std::uint64_t total = 0;
  FrameId frame = 0;  // one of its frames
};

// How much of a sample is in the time asked for, in ticks.
std::uint64_t TicksBetween(const Profile& profile, const Sample& sample, std::int64_t from_ns,
                           std::int64_t to_ns) {
  const std::int64_t start_ns = std::max(sample.start_ns, from_ns);
  const std::int64_t end_ns = std::min(sample.start_ns + profile.DurationNs(sample), to_ns);
  if (end_ns <= start_ns) return 0;
  return static_cast<std::uint64_t>((end_ns - start_ns + profile.period_ns() / 2) / profile.period_ns());
}

}  // namespace

Ranking Rank(const Profile& profile, const View& view, std::int64_t from_ns, std::int64_t to_ns) {
  Ranking ranking;
  std::map<Function, Ticks> by_function;
  std::map<ThreadId, RankedThread> threads;
  const auto function_of = [&](FrameId id) {
    const Frame& frame = profile.frames()[id];
    return Function{frame.function, frame.file, view.by_line ? frame.line : frame.first_line};
  };
  for (const Sample& sample : profile.samples()) {
    const std::uint64_t ticks = TicksBetween(profile, sample, from_ns, to_ns);
    if (ticks == 0) continue;
    RankedThread& thread = threads[sample.thread];
    thread.thread = sample.thread;
    thread.stack = sample.stack;
    if (sample.on_cpu) ranking.on_cpu += ticks, thread.on_cpu += ticks;
    if (sample.has_gil) ranking.with_gil += ticks, thread.with_gil += ticks;
    if (!IsShown(view, profile, sample) || sample.stack == kEmptyStack) continue;
    by_function[function_of(profile.stacks()[sample.stack].frame)].own += ticks;
    std::set<Function> seen;  // a recursive function is in the stack once
    for (const FrameId frame : profile.FramesOf(sample.stack)) {
      const Function function = function_of(frame);
      if (!seen.insert(function).second) continue;
      Ticks& counted = by_function[function];
      counted.total += ticks;
      counted.frame = frame;
    }
  }
  for (const auto& [id, thread] : threads) ranking.threads.push_back(thread);
  std::ranges::stable_sort(ranking.threads, [](const RankedThread& a, const RankedThread& b) {
    return std::tie(a.on_cpu, a.with_gil) > std::tie(b.on_cpu, b.with_gil);
  });
  for (const auto& [function, ticks] : by_function) {
    RankedFunction ranked{profile.frames()[ticks.frame], ticks.own, ticks.total};
    ranked.function.line = std::get<2>(function);
    ranking.functions.push_back(std::move(ranked));
  }
  std::stable_sort(ranking.functions.begin(), ranking.functions.end(), [](const auto& a, const auto& b) {
    return std::tie(a.own, a.total) > std::tie(b.own, b.total);
  });
  return ranking;
}

}  // namespace probing::flame
