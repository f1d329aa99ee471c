// profile.proto of github.com/google/pprof, written by hand: the format is four kinds of records.

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/protobuf.h"
#include "flame/formats.h"

namespace probing::flame {
namespace {

using Message = ProtobufMessage;

class Strings {
 public:
  std::uint64_t Id(const std::string& text) {
    const auto [found, is_new] = ids_.try_emplace(text, list_.size());
    if (is_new) list_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& all() const { return list_; }

 private:
  std::vector<std::string> list_{""};  // the format wants it first
  std::unordered_map<std::string, std::uint64_t> ids_{{"", 0}};
};

std::string ValueType(Strings& strings, const std::string& type, const std::string& unit) {
  Message message;
  message.Number(1, strings.Id(type));
  message.Number(2, strings.Id(unit));
  return message.bytes();
}

std::string Label(Strings& strings, const std::string& key, const std::string& value) {
  Message label;
  label.Number(1, strings.Id(key));
  label.Number(2, strings.Id(value));
  return label.bytes();
}

std::string Label(Strings& strings, const std::string& key, std::int64_t value) {
  Message label;
  label.Number(1, strings.Id(key));
  label.Number(3, static_cast<std::uint64_t>(value));
  return label.bytes();
}

// Locations and functions are numbered from 1 in the order of the profile's frames; a function is
// there once per line it was seen at, which readers put together by its name and start.
void AddFrames(const Profile& profile, Strings& strings, Message& out) {
  for (std::size_t i = 0; i < profile.frames().size(); ++i) {
    const Frame& frame = profile.frames()[i];
    Message line;
    line.Number(1, i + 1);
    line.Number(2, static_cast<std::uint64_t>(frame.line > 0 ? frame.line : frame.first_line));
    Message location;
    location.Number(1, i + 1);
    location.Bytes(4, line.bytes());
    out.Bytes(4, location.bytes());

    Message function;
    function.Number(1, i + 1);
    function.Number(2, strings.Id(frame.function));
    function.Number(3, strings.Id(frame.function));
    function.Number(4, strings.Id(frame.file));
    function.Number(5, static_cast<std::uint64_t>(frame.first_line));
    out.Bytes(5, function.bytes());
  }
}

// From the first sample to the end of the last.
std::int64_t DurationNs(const Profile& profile) {
  std::int64_t end_ns = 0;
  for (const Sample& sample : profile.samples()) {
    end_ns = std::max(end_ns, sample.start_ns + profile.DurationNs(sample));
  }
  return profile.samples().empty() ? 0 : end_ns - profile.samples().front().start_ns;
}

struct Ticks {
  std::uint64_t all = 0;
  std::uint64_t on_cpu = 0;
};

}  // namespace

std::string ToPprof(const Profile& profile, const View& view) {
  std::map<std::pair<ThreadId, StackId>, Ticks> folded;
  for (const Sample& sample : profile.samples()) {
    if (!IsShown(view, profile, sample) || sample.stack == kEmptyStack) continue;
    Ticks& ticks = folded[{sample.thread, sample.stack}];
    ticks.all += sample.ticks;
    if (sample.on_cpu) ticks.on_cpu += sample.ticks;
  }
  const auto period_ns = static_cast<std::uint64_t>(profile.period_ns());
  Strings strings;
  Message out;
  out.Bytes(1, ValueType(strings, "samples", "count"));
  out.Bytes(1, ValueType(strings, "wall", "nanoseconds"));
  out.Bytes(1, ValueType(strings, "cpu", "nanoseconds"));
  for (const auto& [key, ticks] : folded) {
    const Thread& thread = profile.threads()[key.first];
    std::vector<std::uint64_t> locations;  // innermost first
    for (StackId stack = key.second; stack != kEmptyStack; stack = profile.stacks()[stack].caller) {
      locations.push_back(profile.stacks()[stack].frame + std::uint64_t{1});
    }
    Message sample;
    sample.Packed(1, locations);
    sample.Packed(2, {ticks.all, ticks.all * period_ns, ticks.on_cpu * period_ns});
    if (thread.rank) sample.Bytes(3, Label(strings, "rank", *thread.rank));
    sample.Bytes(3, Label(strings, "process", std::int64_t{thread.pid}));
    sample.Bytes(3, Label(strings, "tid", std::int64_t{thread.tid}));
    sample.Bytes(3, Label(strings, "thread", thread.name));
    out.Bytes(2, sample.bytes());
  }
  AddFrames(profile, strings, out);
  out.Number(10, static_cast<std::uint64_t>(DurationNs(profile)));
  out.Bytes(11, ValueType(strings, "wall", "nanoseconds"));
  out.Number(12, period_ns);
  out.Number(13, strings.Id(view.title));
  for (const std::string& text : strings.all()) out.Bytes(6, text);
  return out.bytes();
}

}  // namespace probing::flame
