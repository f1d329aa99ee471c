#include <map>

#include "flame/escape.h"
#include "flame/formats.h"

namespace probing::flame {

std::string ToCollapsed(const Profile& profile, const View& view) {
  std::vector<std::string> labels;
  for (const Frame& frame : profile.frames()) labels.push_back(CollapsedText(Label(view, frame)));
  std::map<std::string, std::uint64_t> ticks_by_line;  // also merges what the labels do not tell apart
  for (const FoldedStack& folded : Fold(profile, view)) {
    std::string line;
    for (const Frame& group : GroupsOf(view, profile.threads()[folded.thread])) {
      line += (line.empty() ? "" : ";") + CollapsedText(group.function);
    }
    for (const FrameId frame : profile.FramesOf(folded.stack))
      line += (line.empty() ? "" : ";") + labels[frame];
    ticks_by_line[line] += folded.ticks;
  }
  std::string text;
  for (const auto& [line, ticks] : ticks_by_line) text += line + " " + std::to_string(ticks) + "\n";
  return text;
}

}  // namespace probing::flame
