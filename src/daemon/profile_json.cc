#include "daemon/profile_json.h"

#include <map>
#include <tuple>

#include "base/clock.h"
#include "flame/palette.h"
#include "flame/view.h"

namespace probing::daemon {

using server::Json;

namespace {

const char* KindName(flame::FrameKind kind) {
  switch (kind) {
    case flame::FrameKind::kPython:
      return "python";
    case flame::FrameKind::kNative:
      return "native";
    case flame::FrameKind::kGroup:
      break;
  }
  return "group";
}

Json FrameToJson(const flame::Frame& frame) {
  return {{"kind", KindName(frame.kind)},
          {"func", frame.function},
          {"file", frame.file},
          {"lineno", frame.line},
          {"first_line", frame.first_line}};
}

Json SamplesToJson(const flame::Profile& profile, std::int64_t origin_ns) {
  Json start_ns = Json::array();
  Json weight = Json::array();
  Json thread = Json::array();
  Json stack = Json::array();
  Json on_cpu = Json::array();
  Json has_gil = Json::array();
  Json mark = Json::array();
  for (const flame::Sample& sample : profile.samples()) {
    start_ns.push_back(sample.start_ns - origin_ns);
    weight.push_back(sample.ticks);
    thread.push_back(sample.thread);
    stack.push_back(sample.stack);
    on_cpu.push_back(sample.on_cpu);
    has_gil.push_back(sample.has_gil);
    mark.push_back(sample.mark);
  }
  return {{"start_ns", std::move(start_ns)}, {"weight", std::move(weight)}, {"thread", std::move(thread)},
          {"stack", std::move(stack)},       {"on_cpu", std::move(on_cpu)}, {"has_gil", std::move(has_gil)},
          {"mark", std::move(mark)}};
}

}  // namespace

Json LossesToJson(const flame::Losses& losses) {
  return {{"torn", losses.torn},
          {"unmerged", losses.unmerged},
          {"dropped", losses.dropped},
          {"spared", losses.spared},
          {"missed", losses.missed}};
}

Json ProfileToJson(const observe::Recorder& recorder) {
  const flame::Profile& profile = recorder.profile();
  Json frames = Json::array();
  for (const flame::Frame& frame : profile.frames()) frames.push_back(FrameToJson(frame));
  Json stacks = Json::array();  // outermost first
  for (flame::StackId stack = 0; stack < profile.stacks().size(); ++stack)
    stacks.push_back(profile.FramesOf(stack));
  Json threads = Json::array();
  for (const flame::Thread& thread : profile.threads()) {
    threads.push_back(
        {{"pid", thread.pid}, {"tid", thread.tid}, {"name", thread.name}, {"process", thread.process}});
    if (thread.rank) threads.back()["rank"] = *thread.rank;
  }
  Json gone = Json::array();
  for (const observe::Recorder::Gone& each : recorder.gone()) {
    gone.push_back({{"pid", each.pid}, {"why", each.error.message}});
    if (each.at_ns != 0)
      gone.back()["after_s"] = static_cast<double>(each.at_ns - recorder.started_ns()) / 1e9;
  }
  return {{"period_ns", profile.period_ns()},
          {"samples_taken", recorder.samples_taken()},
          {"started_ns", recorder.started_ns() - MonotonicNs() + WallNs()},
          {"ended", !recorder.is_going()},
          {"gone", std::move(gone)},
          {"lost", LossesToJson(profile.losses())},
          {"marks", profile.marks()},
          {"threads", std::move(threads)},
          {"frames", std::move(frames)},
          {"stacks", std::move(stacks)},
          {"samples", SamplesToJson(profile, recorder.started_ns())}};
}

Json FoldedToJson(const flame::Profile& profile) {
  std::map<std::tuple<flame::ThreadId, flame::StackId, bool, bool, flame::MarkId>, std::uint64_t> folded;
  for (const flame::Sample& sample : profile.samples()) {
    folded[{sample.thread, sample.stack, sample.on_cpu, sample.has_gil, sample.mark}] += sample.ticks;
  }
  Json list = Json::array();
  for (const auto& [key, ticks] : folded) {
    const auto& [thread_id, stack, on_cpu, has_gil, mark] = key;
    const flame::Thread& thread = profile.threads()[thread_id];
    Json frames = Json::array();  // outermost first
    Json classes = Json::array();
    for (const flame::FrameId frame : profile.FramesOf(stack)) {
      frames.push_back(Label(flame::View{.by_line = true}, profile.frames()[frame]));
      classes.push_back(flame::ClassOf(profile.frames()[frame]));
    }
    list.push_back({{"pid", thread.pid},
                    {"tid", thread.tid},
                    {"thread_name", thread.name},
                    {"stack", std::move(frames)},
                    {"classes", std::move(classes)},
                    {"on_cpu", on_cpu},
                    {"has_gil", has_gil},
                    {"weight", ticks}});
    if (mark != flame::kNoMark) list.back()["trigger"] = profile.marks()[mark];
  }
  return list;
}

}  // namespace probing::daemon
