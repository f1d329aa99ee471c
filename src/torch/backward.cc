#include "torch/backward.h"

#include <algorithm>

namespace probing::torch {
namespace {

using Kind = BackwardMoment::Kind;

// Index of the moment at which each call's backward begins; −1 for none.
std::vector<std::int32_t> Beginnings(std::span<const CallRange> calls,
                                     std::span<const BackwardMoment> moments) {
  std::vector<std::int32_t> first(calls.size(), -1);
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const BackwardMoment& moment = moments[i];
    if (moment.kind == Kind::kBegin && first[static_cast<std::size_t>(moment.call)] < 0) {
      first[static_cast<std::size_t>(moment.call)] = static_cast<std::int32_t>(i);
    }
  }
  // Inner calls come after outer ones, so that theirs are known when the outer ones ask.
  for (std::size_t call = calls.size(); call-- > 0;) {
    const CallRange& range = calls[call];
    if (first[call] >= 0 || range.skipped) continue;
    if (range.shares > static_cast<std::int32_t>(call)) {
      first[call] = first[static_cast<std::size_t>(range.shares)];
      continue;
    }
    for (std::int32_t inner = static_cast<std::int32_t>(call) + 1; inner <= range.last; ++inner) {
      const std::int32_t begin = first[static_cast<std::size_t>(inner)];
      if (calls[static_cast<std::size_t>(inner)].skipped) {  // it may have been the first one
        first[call] = -1;
        break;
      }
      if (begin >= 0 && (first[call] < 0 || begin < first[call])) first[call] = begin;
    }
  }
  return first;
}

}  // namespace

std::vector<std::optional<BackwardSpan>> BackwardSpans(std::span<const CallRange> calls,
                                                       std::vector<BackwardMoment> moments) {
  std::stable_sort(moments.begin(), moments.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  std::erase_if(moments, [&](const BackwardMoment& moment) {
    return moment.kind != Kind::kPassEnd &&
           (moment.call < 0 || static_cast<std::size_t>(moment.call) >= calls.size());
  });
  const std::vector<std::int32_t> first = Beginnings(calls, moments);
  std::vector<std::optional<BackwardSpan>> spans(calls.size());
  for (std::size_t call = 0; call < calls.size(); ++call) {
    if (first[call] < 0) continue;
    const auto own = static_cast<std::int32_t>(call);
    const auto begin = static_cast<std::size_t>(first[call]);
    std::size_t end = begin + 1;
    for (; end < moments.size(); ++end) {
      const BackwardMoment& moment = moments[end];
      if (moment.kind == Kind::kPassEnd || moment.call < own || moment.call > calls[call].last) break;
      if (moment.kind == Kind::kEnd && moment.call == own) break;
    }
    if (end == moments.size()) end = moments.size() - 1;  // the pass has not ended: as far as is known
    spans[call] = {moments[begin].at_ns, moments[end].at_ns - moments[begin].at_ns};
  }
  return spans;
}

}  // namespace probing::torch
