#include <set>

#include "flame/escape.h"
#include "flame/formats.h"

namespace probing::flame {
namespace {

// Microseconds with three decimals: what the format counts in.
std::string Microseconds(std::int64_t ns) {
  const std::string digits = std::to_string(ns % 1000 + 1000);
  return std::to_string(ns / 1000) + "." + digits.substr(1);
}

std::string ThreadFields(const Thread& thread) {
  return ",\"pid\":" + std::to_string(thread.pid) + ",\"tid\":" + std::to_string(thread.tid);
}

std::string NameEvent(const char* what, const Thread& thread, const std::string& name) {
  return "{\"ph\":\"M\",\"name\":\"" + std::string(what) + "\"" + ThreadFields(thread) +
         ",\"args\":{\"name\":" + JsonText(name) + "}}";
}

// Writes the slices of one thread: a frame's slice is open for as long as consecutive samples have
// it, and everything that called it, at the same place.
class SliceWriter {
 public:
  SliceWriter(const Profile& profile, const View& view, std::int64_t origin_ns,
              std::vector<std::string>& events)
      : profile_(profile), view_(view), origin_ns_(origin_ns), events_(events) {}

  void Add(const Sample& sample) {
    if (sample.start_ns - end_ns_ >= profile_.period_ns()) CloseFrom(0);  // not seen in between
    const std::vector<FrameId> frames = profile_.FramesOf(sample.stack);
    std::size_t same = 0;
    while (same < frames.size() && same < open_.size() && IsSame(open_[same].frame, frames[same])) ++same;
    CloseFrom(same);
    for (std::size_t i = same; i < frames.size(); ++i) {
      open_.push_back({frames[i], sample.start_ns, events_.size()});
      events_.emplace_back();
    }
    end_ns_ = sample.start_ns + profile_.DurationNs(sample);
    thread_ = &profile_.threads()[sample.thread];
  }

  void CloseFrom(std::size_t depth) {
    while (open_.size() > depth) {
      const Frame& frame = profile_.frames()[open_.back().frame];
      const std::int64_t start_ns = open_.back().start_ns;
      const std::size_t event = open_.back().event;
      open_.pop_back();
      events_[event] = "{\"ph\":\"X\",\"name\":" + JsonText(frame.function) +
                       ",\"cat\":\"python\",\"ts\":" + Microseconds(start_ns - origin_ns_) +
                       ",\"dur\":" + Microseconds(end_ns_ - start_ns) + ThreadFields(*thread_) +
                       ",\"args\":{\"file\":" + JsonText(frame.file) +
                       ",\"line\":" + std::to_string(frame.first_line) + "}}";
    }
  }

 private:
  struct Open {
    FrameId frame;
    std::int64_t start_ns;
    // Its place among the events: readers put slices that begin at the same moment into each other in the
    // order of the file, so a caller comes before what it calls.
    std::size_t event;
  };

  // A slice goes on while a function runs, whatever its line, unless lines are asked for.
  bool IsSame(FrameId a, FrameId b) const {
    if (a == b || view_.by_line) return a == b;
    const Frame& left = profile_.frames()[a];
    const Frame& right = profile_.frames()[b];
    return left.function == right.function && left.first_line == right.first_line && left.file == right.file;
  }

  const Profile& profile_;
  const View& view_;
  std::int64_t origin_ns_;
  std::vector<std::string>& events_;
  std::vector<Open> open_;
  std::int64_t end_ns_ = 0;
  const Thread* thread_ = nullptr;
};

}  // namespace

std::string ToChromeTrace(const Profile& profile, const View& view) {
  std::vector<std::string> events;
  std::set<pid_t> named_processes;
  for (const Thread& thread : profile.threads()) {
    if (named_processes.insert(thread.pid).second) {
      events.push_back(NameEvent("process_name", thread, ProcessName(thread)));
    }
    events.push_back(NameEvent("thread_name", thread, thread.name));
  }
  const std::int64_t origin_ns = profile.samples().empty() ? 0 : profile.samples().front().start_ns;
  std::vector<SliceWriter> writers(profile.threads().size(), SliceWriter(profile, view, origin_ns, events));
  for (const Sample& sample : profile.samples()) {
    if (IsShown(view, profile, sample) && sample.stack != kEmptyStack) writers[sample.thread].Add(sample);
  }
  for (SliceWriter& writer : writers) writer.CloseFrom(0);
  std::string text = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":" + JsonText(view.title) +
                     "},\n\"traceEvents\":[\n";
  for (std::size_t i = 0; i < events.size(); ++i) text += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

}  // namespace probing::flame
