#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "flame/escape.h"
#include "flame/formats.h"

namespace probing::flame {
namespace {

std::string Seconds(std::int64_t ns) {
  const std::string digits = std::to_string(ns % 1'000'000'000 + 1'000'000'000);
  return std::to_string(ns / 1'000'000'000) + "." + digits.substr(1);
}

std::string FrameJson(const View& view, const Frame& frame) {
  std::string json = "{\"name\":" + JsonText(frame.function);
  if (!frame.file.empty()) json += ",\"file\":" + JsonText(frame.file);
  const int line = view.by_line ? frame.line : frame.first_line;
  if (line > 0) json += ",\"line\":" + std::to_string(line);
  return json + "}";
}

// The sampled profile of one thread.
struct Timeline {
  std::string samples;
  std::string weights;
  std::int64_t total_ns = 0;
};

std::string TimelineJson(const Thread& thread, const Timeline& timeline) {
  const std::string rank = thread.rank ? "rank " + std::to_string(*thread.rank) + " " : "";
  const std::string name = rank + "thread " + std::to_string(thread.tid) + " " + thread.name + " (process " +
                           std::to_string(thread.pid) + " " + thread.process + ")";
  return "{\"type\":\"sampled\",\"name\":" + JsonText(name) +
         ",\"unit\":\"seconds\",\"startValue\":0,\"endValue\":" + Seconds(timeline.total_ns) +
         ",\"samples\":[" + timeline.samples + "],\"weights\":[" + timeline.weights + "]}";
}

// Frames as the view shows them, each once: speedscope's sandwich view tells functions apart by their index,
// and without --lines the profile's frames of one function differ only in the line they were at.
struct FrameTable {
  std::string json;
  std::vector<std::size_t> index_of;  // by FrameId

  FrameTable(const Profile& profile, const View& view) {
    std::unordered_map<std::string, std::size_t> known;
    for (const Frame& frame : profile.frames()) {
      const std::string text = FrameJson(view, frame);
      const auto [entry, is_new] = known.try_emplace(text, known.size());
      if (is_new) json += (json.empty() ? "" : ",\n") + text;
      index_of.push_back(entry->second);
    }
  }
};

}  // namespace

std::string ToSpeedscope(const Profile& profile, const View& view) {
  const FrameTable frames(profile, view);
  std::map<ThreadId, Timeline> timelines;
  for (const Sample& sample : profile.samples()) {
    if (!IsShown(view, profile, sample) || sample.stack == kEmptyStack) continue;
    Timeline& timeline = timelines[sample.thread];
    const char* comma = timeline.samples.empty() ? "" : ",";
    std::string stack;
    for (const FrameId frame : profile.FramesOf(sample.stack)) {
      stack += (stack.empty() ? "" : ",") + std::to_string(frames.index_of[frame]);
    }
    timeline.samples += comma + ("[" + stack + "]");
    timeline.weights += comma + Seconds(profile.DurationNs(sample));
    timeline.total_ns += profile.DurationNs(sample);
  }
  std::string profiles;
  for (const auto& [thread, timeline] : timelines) {
    profiles += (profiles.empty() ? "" : ",\n") + TimelineJson(profile.threads()[thread], timeline);
  }
  return "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n\"exporter\":\"probing\",\n"
         "\"name\":" +
         JsonText(view.title) + ",\n\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[\n" + frames.json +
         "\n]},\n\"profiles\":[\n" + profiles + "\n]}\n";
}

}  // namespace probing::flame
