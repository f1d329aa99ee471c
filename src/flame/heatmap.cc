// A heat map of source lines, with who called them and what they called: a page like that of the flame graph.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "flame/escape.h"
#include "flame/formats.h"
#include "flame/page.h"
#include "flame/script_source.h"

namespace probing::flame {
namespace {

constexpr std::size_t kNeighbours = 12;    // callers and callees that are named, of each line
constexpr int kContext = 3;                // lines shown around one that was seen
constexpr std::size_t kMaxColumns = 400;   // of a line of the source
constexpr std::size_t kMaxSources = 2000;  // files that are read

using Place = std::pair<std::size_t, int>;  // a file, by its index, and a line in it
using Neighbours = std::map<Place, std::uint64_t>;

struct Line {
  std::string function;
  std::uint64_t own = 0;    // ticks in which it was the innermost line
  std::uint64_t total = 0;  // ticks in which it was in the stack, however often
  Neighbours callers;
  Neighbours callees;
};

struct File {
  std::string name;
  std::uint64_t own = 0;
  std::uint64_t total = 0;
  std::map<int, Line> lines;
};

class Map {
 public:
  Map(const Profile& profile, const View& view) : profile_(profile) {
    for (const FoldedStack& folded : Fold(profile, view)) Add(folded);
  }

  std::string ToJson(const View& view) const {
    std::vector<std::size_t> order(files_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(files_[b].own, files_[b].total) < std::pair(files_[a].own, files_[a].total);
    });
    std::vector<std::size_t> position(files_.size());
    for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
    std::string json = "{\"total\":" + std::to_string(total_) + ",\"files\":[";
    for (std::size_t i = 0; i < order.size(); ++i) {
      const File& file = files_[order[i]];
      json += std::string(i == 0 ? "\n" : ",\n") + "{\"file\":" + ScriptText(file.name) +
              ",\"short\":" + ScriptText(ShortFile(file.name)) + ",\"own\":" + std::to_string(file.own) +
              ",\"total\":" + std::to_string(file.total) + ",\"lines\":[";
      bool first = true;
      for (const auto& [number, line] : file.lines) {
        json += (first ? "\n[" : ",\n[") + std::to_string(number) + "," + std::to_string(line.own) + "," +
                std::to_string(line.total) + "," + ScriptText(line.function) + "," +
                NeighboursJson(line.callers, position) + "," + NeighboursJson(line.callees, position) + "]";
        first = false;
      }
      json += "],\"source\":" + (i < kMaxSources ? SourceJson(view, file) : "[]") + "}";
    }
    return json + "]}";
  }

 private:
  std::size_t FileOf(const std::string& name) {
    const auto [known, is_new] = file_ids_.try_emplace(name, files_.size());
    if (is_new) files_.push_back({name, 0, 0, {}});
    return known->second;
  }

  void Add(const FoldedStack& folded) {
    total_ += folded.ticks;
    std::vector<Place> path;  // outermost first; only frames of which a line is known
    for (const FrameId id : profile_.FramesOf(folded.stack)) {
      const Frame& frame = profile_.frames()[id];
      if (frame.line <= 0 || frame.file.empty()) continue;
      path.emplace_back(FileOf(frame.file), frame.line);
      files_[path.back().first].lines[frame.line].function = frame.function;
    }
    if (path.empty()) return;
    // A recursive function counts once for each stack.
    std::set<Place> lines;
    std::set<std::size_t> files;
    std::set<std::pair<Place, Place>> calls;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (lines.insert(path[i]).second) At(path[i]).total += folded.ticks;
      if (files.insert(path[i].first).second) files_[path[i].first].total += folded.ticks;
      if (i == 0 || !calls.insert({path[i - 1], path[i]}).second) continue;
      At(path[i]).callers[path[i - 1]] += folded.ticks;
      At(path[i - 1]).callees[path[i]] += folded.ticks;
    }
    At(path.back()).own += folded.ticks;
    files_[path.back().first].own += folded.ticks;
  }

  Line& At(const Place& place) { return files_[place.first].lines[place.second]; }

  // [[file, line, ticks], …], most ticks first.
  static std::string NeighboursJson(const Neighbours& neighbours, const std::vector<std::size_t>& position) {
    std::vector<std::pair<std::uint64_t, Place>> sorted;
    for (const auto& [place, ticks] : neighbours) sorted.emplace_back(ticks, place);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return b < a; });
    if (sorted.size() > kNeighbours) sorted.resize(kNeighbours);
    std::string json;
    for (const auto& [ticks, place] : sorted) {
      json += (json.empty() ? "[" : ",[") + std::to_string(position[place.first]) + "," +
              std::to_string(place.second) + "," + std::to_string(ticks) + "]";
    }
    return "[" + json + "]";
  }

  // [[line, text], …]: those that were seen, and what is around them.
  static std::string SourceJson(const View& view, const File& file) {
    std::string json;
    if (!view.source_of) return "[]";
    const std::string text = view.source_of(file.name);
    std::string_view rest = text;
    for (int number = 1; !rest.empty(); ++number) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const auto seen = file.lines.lower_bound(number - kContext);
      if (seen != file.lines.end() && seen->first <= number + kContext) {
        json += (json.empty() ? "[" : ",[") + std::to_string(number) + "," +
                ScriptText(ValidUtf8(std::string(rest.substr(0, std::min(end, kMaxColumns))))) + "]";
      }
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return "[" + json + "]";
  }

  const Profile& profile_;
  std::uint64_t total_ = 0;
  std::vector<File> files_;
  std::map<std::string, std::size_t> file_ids_;
};

}  // namespace

std::string ToHeatmap(const Profile& profile, const View& view) {
  return FillPage(kHeatmapPage, view.title, Map(profile, view).ToJson(view));
}

}  // namespace probing::flame
