#include "flame/view.h"

#include <unordered_map>

#include "base/source_path.h"

namespace probing::flame {

bool IsShown(const View& view, const Profile& profile, const Sample& sample) {
  if (!view.ranks.empty()) {
    const std::optional<std::int64_t>& rank = profile.threads()[sample.thread].rank;
    if (!rank || !view.ranks.contains(*rank)) return false;
  }
  switch (view.shown) {
    case Shown::kActive:
      return sample.on_cpu || sample.has_gil;
    case Shown::kGil:
      return sample.has_gil;
    case Shown::kAll:
      break;
  }
  return true;
}

std::string ProcessName(const Thread& thread) {
  return thread.rank ? "rank " + std::to_string(*thread.rank) + " " + thread.process : thread.process;
}

std::string ShortFile(const std::string& file) { return std::string(ShortPath(file)); }

std::string Label(const View& view, const Frame& frame) {
  if (frame.file.empty()) return frame.function;
  std::string label = frame.function + " (" + ShortFile(frame.file);
  const int line = view.by_line ? frame.line : frame.first_line;
  if (line > 0) label += ":" + std::to_string(line);
  return label + ")";
}

std::vector<Frame> GroupsOf(const View& view, const Thread& thread) {
  std::vector<Frame> groups;
  if (view.by_rank && thread.rank)
    groups.push_back({FrameKind::kGroup, "rank " + std::to_string(*thread.rank), ""});
  if (view.by_process) {
    groups.push_back({FrameKind::kGroup, "process " + std::to_string(thread.pid) + " " + thread.process, ""});
  }
  if (view.by_thread) {
    groups.push_back({FrameKind::kGroup, "thread " + std::to_string(thread.tid) + " " + thread.name, ""});
  }
  return groups;
}

std::vector<FoldedStack> Fold(const Profile& profile, const View& view) {
  std::vector<FoldedStack> folded;
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (const Sample& sample : profile.samples()) {
    if (!IsShown(view, profile, sample) || sample.stack == kEmptyStack) continue;
    const std::uint64_t key = std::uint64_t{sample.thread} << 32U | sample.stack;
    const auto [found, is_new] = index.try_emplace(key, folded.size());
    if (is_new) folded.push_back({sample.thread, sample.stack});
    folded[found->second].ticks += sample.ticks;
    if (!sample.on_cpu && !sample.has_gil) folded[found->second].idle_ticks += sample.ticks;
  }
  return folded;
}

}  // namespace probing::flame
